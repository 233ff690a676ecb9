// Defines what code of users may read. Code with an immediate answer (a preview, quality tests on main) sees what its caller
// sees. Code of a run sees what the owner of its pipeline sees, independent of who requested the run.
import type { Sql } from '../../drizzle/client.ts'
import { type Access, type Enforcement, EVERYTHING, type Resource, type Visible } from '../core/access.ts'
import type { Identity } from '../core/identity.ts'
import { ownersOfRun, unowned } from './store/owners.ts'

/** A caller with restricted visibility, as stored in a token of the lake. */
export type Reader = Pick<Identity, 'userId' | 'roles'>

export interface CodeVisibility {
  ofReader(reader: Reader): Promise<Visible>
  ofRun(runId: string): Promise<Visible>
  /** Whether a run may archive files of a zone, which removes them from the input of later runs. */
  mayArchive(runId: string, zone: Resource): Promise<boolean>
}

/** Returns null when the caller sees everything. */
export const readerOf = ({ isAdmin }: Access, identity: Identity | null): Reader | null =>
  isAdmin || identity === null ? null : { userId: identity.userId, roles: identity.roles }

/** Visibility of the community edition. */
export const seesAll: CodeVisibility = {
  ofReader: async () => EVERYTHING,
  ofRun: async () => EVERYTHING,
  mayArchive: async () => true,
}

interface CodeVisibilityDeps {
  sql: Sql
  enforcement: Enforcement
  /** Users whom the configuration names as administrators. A run carries no token of its owner, so it has no roles to check. */
  admins: readonly string[]
}

/**
 * Looks up visibility for each call. Concurrent calls with the same key, such as those for the tables of one run, share a
 * lookup.
 */
export function makeCodeVisibility({ sql, enforcement, admins }: CodeVisibilityDeps): CodeVisibility {
  const pendingLookups = new Map<string, Promise<Visible>>()

  function shareLookup(key: string, lookup: () => Promise<Visible>): Promise<Visible> {
    const pending = pendingLookups.get(key)
    if (pending !== undefined) return pending
    // The entry is deleted before the lookup starts. So a later call, for example after a revocation, never gets an older
    // result.
    const started = Promise.resolve().then(() => {
      pendingLookups.delete(key)
      return lookup()
    })
    pendingLookups.set(key, started)
    return started
  }

  function ofReader({ userId, roles }: Reader): Promise<Visible> {
    if (admins.includes(userId)) return Promise.resolve(EVERYTHING)
    return shareLookup(JSON.stringify([userId, roles]), () =>
      enforcement.listVisible({ kind: 'user', userId, name: '', roles }),
    )
  }

  return {
    ofReader,
    ofRun: (runId) =>
      shareLookup(runId, async () => {
        const { pipelineId, owner, handedBy } = await ownersOfRun(sql, runId)
        const ofUser = (userId: string) => ofReader({ userId, roles: [] })
        const visibilities = await Promise.all([
          owner === null ? unowned(sql) : ofUser(owner),
          ...handedBy.map(ofUser),
        ])
        const common = visibilities.reduce(intersectionOf)
        // A pipeline can always read its own table, even after its ownership changes.
        return pipelineId === null || common.pipelines === 'all' || common.pipelines.includes(pipelineId)
          ? common
          : { ...common, pipelines: [...common.pipelines, pipelineId] }
      }),
    async mayArchive(runId, zone) {
      const { owner, handedBy } = await ownersOfRun(sql, runId)
      const decisions = await Promise.all([
        owner === null
          ? unowned(sql).then(({ zones }) => zones !== 'all' && zones.includes(zone.id))
          : mayWrite(owner, zone),
        ...handedBy.map((userId) => mayWrite(userId, zone)),
      ])
      return decisions.every(Boolean)
    },
  }

  function mayWrite(userId: string, zone: Resource): Promise<boolean> {
    if (admins.includes(userId)) return Promise.resolve(true)
    return enforcement.check({ kind: 'user', userId, name: '', roles: [] }, zone, 'write')
  }
}

/** The intersection of two visibilities. */
const intersectionOf = (a: Visible, b: Visible): Visible => ({
  pipelines: intersectIds(a.pipelines, b.pipelines),
  zones: intersectIds(a.zones, b.zones),
  namespaces: intersectIds(a.namespaces, b.namespaces),
})

function intersectIds(a: 'all' | readonly string[], b: 'all' | readonly string[]): 'all' | readonly string[] {
  if (a === 'all') return b
  if (b === 'all') return a
  const idsOfB = new Set(b)
  return a.filter((id) => idsOfB.has(id))
}
