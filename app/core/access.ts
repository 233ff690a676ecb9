// The interface of access rights. The built-in enforcement and remote plugins both implement it.
import type { Identity } from './identity.ts'

export type ResourceType = 'pipeline' | 'namespace' | 'landing_zone'

/** Cumulative: admin includes write, and write includes read. */
export type Permission = 'read' | 'write' | 'admin'

/** Resources that have owners and grants. Other resources follow one of these: a run its pipeline, a sample its zone. */
export interface Resource {
  readonly type: ResourceType
  readonly id: string
  /** The namespace of the resource; for a namespace, its own name. */
  readonly namespace: string
  /** Null: no owner. Then only administrators and users with a right on the namespace may use the resource. */
  readonly owner: string | null
}

/** Resources that a caller may see: `all` of a kind, or these ids. Namespaces are listed by name. */
export interface Visible {
  readonly pipelines: 'all' | readonly string[]
  readonly zones: 'all' | readonly string[]
  /** Namespaces in which the caller also sees tables without a pipeline, and files without a pipeline or zone. */
  readonly namespaces: 'all' | readonly string[]
}

export const EVERYTHING: Visible = { pipelines: 'all', zones: 'all', namespaces: 'all' }

/** Whether the caller sees all resources. */
export const seesEverything = ({ pipelines, zones, namespaces }: Visible): boolean =>
  pipelines === 'all' && zones === 'all' && namespaces === 'all'

/** Rejects with AppError 503 when no decision is available; the request is then refused. */
export interface Enforcement {
  check(caller: Identity, resource: Resource, permission: Permission): Promise<boolean>
  listVisible(caller: Identity): Promise<Visible>
}

export interface Grant {
  readonly id: string
  readonly grantorId: string
  readonly granteeId: string
  readonly resourceType: ResourceType
  readonly resourceId: string
  readonly permission: Permission
  readonly createdAt: Date
}

/** Stores grants. The Enforcement checks before each call whether the caller may share. */
export interface Sharing {
  /**
   * Replaces an earlier grant of the same grantor to the same grantee on the same resource. `decidedFor` is the owner at the
   * time of the rights check. A store that holds owners as well throws 403 if the owner has changed since that time.
   */
  createGrant(grant: Omit<Grant, 'id' | 'createdAt'>, decidedFor?: string | null): Promise<Grant>
  listGrants(resource: Pick<Resource, 'type' | 'id'>): Promise<Grant[]>
  /** Null: the grant does not exist. */
  grant(id: string): Promise<Grant | null>
  /** False: the grant was already gone. */
  revokeGrant(id: string): Promise<boolean>
  /**
   * Atomic. False: `from` is no longer the owner. Until the new owner publishes the pipeline, its code sees no more than `from`
   * sees. The reason is that the new owner has not agreed to lend the code their visibility. An administrator can vouch for the
   * published version to lift that limit. Runs of an older version stay limited to what `from` sees, and so do runs of a draft
   * without any version.
   */
  transferOwnership(
    pipelineId: string,
    from: string | null,
    to: string,
    isVouchedFor?: boolean,
  ): Promise<boolean>
}

/** Rights of one request. The community edition allows everything without a check. */
export interface Access {
  /** Owner of the resources that this request creates; null: no owner. */
  readonly owner: string | null
  /** The caller as four eyes count people; null: callers cannot be told apart, as in the community edition. */
  readonly person: string | null
  /** The caller has all rights, so checks of single resources are skipped. */
  readonly isAdmin: boolean
  /** Looked up once per request, however often it is called. */
  visible(): Promise<Visible>
  may(resource: Resource, permission: Permission): Promise<boolean>
}

/** Access in the community edition, of administrators, and of the service's own work. */
export const UNLIMITED: Access = {
  owner: null,
  person: null,
  isAdmin: true,
  visible: async () => EVERYTHING,
  may: async () => true,
}
