// Who may do what, as the service asks it. What is built in and what a remote plugin answers implement the same.
import type { Identity } from './identity.ts'

export type ResourceType = 'pipeline' | 'namespace' | 'landing_zone'

/** Cumulative: admin includes write, which includes read. */
export type Permission = 'read' | 'write' | 'admin'

/** What is owned and shared. Everything else follows one of these: a run its pipeline, a sample its zone. */
export interface Resource {
  readonly type: ResourceType
  readonly id: string
  /** Its namespace; of a namespace its own name. */
  readonly namespace: string
  /** Null: nobody's, so only administrators and those with a right on the namespace may use it. */
  readonly owner: string | null
}

/** What a caller may see: everything of a kind, or what has these ids (namespaces: these names). */
export interface Visible {
  readonly pipelines: 'all' | readonly string[]
  readonly zones: 'all' | readonly string[]
  /** Whose tables that no pipeline makes, and whose files of no pipeline and no zone, are seen. */
  readonly namespaces: 'all' | readonly string[]
}

export const EVERYTHING: Visible = { pipelines: 'all', zones: 'all', namespaces: 'all' }

/** Whether nothing is hidden from the caller. */
export const seesEverything = ({ pipelines, zones, namespaces }: Visible): boolean =>
  pipelines === 'all' && zones === 'all' && namespaces === 'all'

/** Rejects with AppError 503 when nobody can say: then nothing is allowed. */
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

/** Stores what is shared with whom. Whether the caller may is decided before, by the Enforcement. */
export interface Sharing {
  /**
   * What the same grantor gave the same grantee on the same resource is replaced. With `decidedFor`, the owner when the right
   * to share was looked at, it is 403 once the resource has another, where grants are kept beside owners.
   */
  createGrant(grant: Omit<Grant, 'id' | 'createdAt'>, decidedFor?: string | null): Promise<Grant>
  listGrants(resource: Pick<Resource, 'type' | 'id'>): Promise<Grant[]>
  /** Null: there is no such grant. */
  grant(id: string): Promise<Grant | null>
  /** False: it was gone already. */
  revokeGrant(id: string): Promise<boolean>
  /**
   * Atomic. False: `from` is not the owner any more. Unless an administrator vouches for it, the pipeline's code sees no more
   * than `from` sees, until the new owner publishes it: nobody asked them whether they want to lend it their eyes. Who vouches
   * does so for the published version: runs of an older one, or of a draft without any, see no more than `from` all the same.
   */
  transferOwnership(
    pipelineId: string,
    from: string | null,
    to: string,
    isVouchedFor?: boolean,
  ): Promise<boolean>
}

/** Of one request. In the community edition everything is allowed and nothing is asked. */
export interface Access {
  /** Who owns what this request creates; null: nobody. */
  readonly owner: string | null
  /** Rights on single things need not be asked about. */
  readonly isAdmin: boolean
  /** Asked once per request, however often it is called. */
  visible(): Promise<Visible>
  may(resource: Resource, permission: Permission): Promise<boolean>
}

/** Of the community edition, of administrators, and of the service's own work. */
export const UNLIMITED: Access = {
  owner: null,
  isAdmin: true,
  visible: async () => EVERYTHING,
  may: async () => true,
}
