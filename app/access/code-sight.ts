// What people's code may read. Code that answers somebody at once (a preview, quality tests on main) sees what that caller
// sees; code that works in the background (a run) sees what the owner of its pipeline sees, whoever asked for it.
import type { Sql } from '../../drizzle/client.ts'
import { type Access, type Enforcement, EVERYTHING, type Resource, type Visible } from '../core/access.ts'
import type { Identity } from '../core/identity.ts'
import { ownersOfRun, unowned } from './store/owners.ts'

/** A caller who does not see everything, as a token of the lake carries them. */
export type Reader = Pick<Identity, 'userId' | 'roles'>

export interface CodeSight {
  ofReader(reader: Reader): Promise<Visible>
  ofRun(runId: string): Promise<Visible>
  /** Whether a run may take a zone's files away from those who read them after it, as it does when it archives them. */
  mayArchive(runId: string, zone: Resource): Promise<boolean>
}

/** Null: the caller sees everything. */
export const readerOf = ({ isAdmin }: Access, identity: Identity | null): Reader | null =>
  isAdmin || identity === null ? null : { userId: identity.userId, roles: identity.roles }

/** Of the community edition. */
export const seesAll: CodeSight = {
  ofReader: async () => EVERYTHING,
  ofRun: async () => EVERYTHING,
  mayArchive: async () => true,
}

export interface CodeSightDeps {
  sql: Sql
  enforcement: Enforcement
  /** Subjects who are administrators whatever their tokens say: a run has no token that could name a role. */
  admins: readonly string[]
}

/** Each question is asked anew; those of one moment, for the tables of one run, together. */
export function makeCodeSight({ sql, enforcement, admins }: CodeSightDeps): CodeSight {
  const waiting = new Map<string, Promise<Visible>>()

  function together(key: string, ask: () => Promise<Visible>): Promise<Visible> {
    const open = waiting.get(key)
    if (open !== undefined) return open
    // Who asks later, after something was revoked for instance, does not get what was looked up before.
    const asked = Promise.resolve().then(() => {
      waiting.delete(key)
      return ask()
    })
    waiting.set(key, asked)
    return asked
  }

  function ofReader({ userId, roles }: Reader): Promise<Visible> {
    if (admins.includes(userId)) return Promise.resolve(EVERYTHING)
    return together(JSON.stringify([userId, roles]), () =>
      enforcement.listVisible({ kind: 'user', userId, name: '', roles }),
    )
  }

  return {
    ofReader,
    ofRun: (runId) =>
      together(runId, async () => {
        const { pipelineId, owner, handedBy } = await ownersOfRun(sql, runId)
        const ofUser = (userId: string) => ofReader({ userId, roles: [] })
        const sights = await Promise.all([
          owner === null ? unowned(sql) : ofUser(owner),
          ...handedBy.map(ofUser),
        ])
        const common = sights.reduce(commonOf)
        // What it made itself it reads on, whoever hands it over.
        return pipelineId === null || common.pipelines === 'all' || common.pipelines.includes(pipelineId)
          ? common
          : { ...common, pipelines: [...common.pipelines, pipelineId] }
      }),
    async mayArchive(runId, zone) {
      const { owner, handedBy } = await ownersOfRun(sql, runId)
      const answers = await Promise.all([
        owner === null
          ? unowned(sql).then(({ zones }) => zones !== 'all' && zones.includes(zone.id))
          : mayWrite(owner, zone),
        ...handedBy.map((userId) => mayWrite(userId, zone)),
      ])
      return answers.every(Boolean)
    },
  }

  function mayWrite(userId: string, zone: Resource): Promise<boolean> {
    if (admins.includes(userId)) return Promise.resolve(true)
    return enforcement.check({ kind: 'user', userId, name: '', roles: [] }, zone, 'write')
  }
}

/** What both see. */
const commonOf = (a: Visible, b: Visible): Visible => ({
  pipelines: commonAmong(a.pipelines, b.pipelines),
  zones: commonAmong(a.zones, b.zones),
  namespaces: commonAmong(a.namespaces, b.namespaces),
})

function commonAmong(a: 'all' | readonly string[], b: 'all' | readonly string[]): 'all' | readonly string[] {
  if (a === 'all') return b
  if (b === 'all') return a
  const known = new Set(b)
  return a.filter((one) => known.has(one))
}
