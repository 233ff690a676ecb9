// What people's code may read. Code that answers somebody at once (a preview, quality tests on main) sees what that caller
// sees; code that works in the background (a run) sees what the owner of its pipeline sees, whoever asked for it.
import type { Sql } from '../../drizzle/client.ts'
import type { Identity } from '../http/auth.ts'
import { type Access, type Enforcement, EVERYTHING, type Visible } from './ports.ts'

/** A caller who does not see everything, as a token of the lake carries them. */
export type Reader = Pick<Identity, 'userId' | 'roles'>

export interface CodeSight {
  ofReader(reader: Reader): Promise<Visible>
  ofRun(runId: string): Promise<Visible>
}

/** Null: the caller sees everything. */
export const readerOf = ({ isAdmin }: Access, identity: Identity | null): Reader | null =>
  isAdmin || identity === null ? null : { userId: identity.userId, roles: identity.roles }

/** Of the community edition. */
export const seesAll: CodeSight = { ofReader: async () => EVERYTHING, ofRun: async () => EVERYTHING }

export interface CodeSightDeps {
  sql: Sql
  enforcement: Pick<Enforcement, 'listVisible'>
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
        const owner = await ownerOfRun(sql, runId)
        return owner === null ? nobodys(sql) : ofReader({ userId: owner, roles: [] })
      }),
  }
}

/** The owner of a run's pipeline, or else of its namespace, who is its administrator then. Null: it is nobody's. */
async function ownerOfRun(sql: Sql, runId: string): Promise<string | null> {
  const [row] = await sql<{ owner: string | null }[]>`
    select coalesce(p.owner, n.owner) as owner
    from run r join pipeline p on p.id = r.pipeline_id left join namespace n on n.name = p.namespace
    where r.id = ${runId}`
  return row?.owner ?? null
}

/**
 * What belongs to nobody, in namespaces of nobody: all that there was before anybody owned anything, and what an API key
 * has made. It is seen by code that belongs to nobody either.
 */
async function nobodys(sql: Sql): Promise<Visible> {
  const [row] = await sql<{ pipelines: string[]; zones: string[]; namespaces: string[] }[]>`
    with owned as materialized (select name from namespace where owner is not null)
    select
      array(select id from pipeline where owner is null and namespace not in (select name from owned))::text[] as pipelines,
      array(select id from landing_zone where owner is null and namespace not in (select name from owned))::text[] as zones,
      array(
        select name from namespace where owner is null
        union select namespace from main_entry where to_commit is null and namespace not in (select name from owned)
      ) as namespaces`
  return row ?? { pipelines: [], zones: [], namespaces: [] }
}
