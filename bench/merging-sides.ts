// Catalogs whose merges of branches are compared. The merges are requests over HTTP, as a user sends them.
import type { Sql } from '../drizzle/client.ts'
import { addBranches } from './branch-merges.ts'

/** Requests at the same time. */
export const AT_ONCE = 8
/** The tables of a commit that creates tables in Nessie. */
const CREATED_AT_ONCE = 100
/** A conflict with another merge ends after few retries, because one of two conflicting merges is always committed. */
const ATTEMPTS_MAX = 50

/** Merges the n-th branch. Resolves with the number of refused attempts before the merge. */
export type MergeBranch = (n: number) => Promise<number>

interface Branches {
  /** The start of the names. */
  kind: string
  tables: number
  count: number
}

export interface Side {
  /**
   * Opens branches at the head of main. Each branch has changed tables of its own, which also exist on main. Each call needs
   * another `kind`.
   */
  open(branches: Branches): Promise<MergeBranch>
}

/** Sluice at this URL. The branches are rows that are added with SQL. They merge by the API. */
export const sluiceAt = (url: string, sql: Sql): Side => ({
  async open(branches) {
    await addBranches(sql, branches)
    return (n) => {
      const path = `${url}/api/v1/branches/${branches.kind}-${branches.tables}-${n}/merge`
      return retried(async () => {
        const answer = await request('POST', path, {}, [409, 503])
        return answer.ok && (await answer.json()).status === 'merged'
      })
    }
  },
})

/** Nessie with this base URL of its API, version 2. */
export function nessieAt(url: string): Side {
  const send = async <Answer>(method: string, path: string, body?: object): Promise<Answer> =>
    (await request(method, `${url}${path}`, body)).json()
  const commit = (branch: string, hash: string, operations: object[]) =>
    send<Committed>('POST', `/trees/${branch}@${hash}/history/commit`, {
      commitMeta: { message: 'tables' },
      operations,
    })
  const head = async () => (await send<Found>('GET', '/trees/main')).reference.hash
  let hasNamespaces = false

  return {
    async open({ kind, tables, count }) {
      const prefix = `${kind}-${tables}`
      if (!hasNamespaces) await commit('main', await head(), NAMESPACES)
      hasNamespaces = true
      const ids = new Map<string, string>()
      const names = Array.from({ length: count }, (_, n) => namesIn(prefix, n, tables)).flat()
      for (const part of parts(names)) {
        const puts = part.map((name) => putOf(name, { version: 1 }))
        const { addedContents } = await commit('main', await head(), puts)
        for (const { key, contentId } of addedContents ?? []) ids.set(key.elements.at(-1) ?? '', contentId)
      }
      const base = await head()
      const heads: string[] = []
      // One after the other: Nessie may give up when many branches are created at the same time.
      for (let n = 0; n < count; n++) {
        const branch = `${prefix}-${n}`
        await send('POST', `/trees?name=${branch}&type=BRANCH`, { type: 'BRANCH', name: 'main', hash: base })
        const changes = namesIn(prefix, n, tables).map((name) =>
          putOf(name, { version: 2, id: ids.get(name) }),
        )
        heads[n] = (await commit(branch, base, changes)).targetBranch.hash
      }
      // A client names the latest commit of main that it knows.
      let known = base
      return (n) => {
        const body = { fromRefName: `${prefix}-${n}`, fromHash: heads[n] }
        return retried(async () => {
          const answer = await request('POST', `${url}/trees/main@${known}/history/merge`, body, [409])
          if (!answer.ok) return false
          const { wasApplied, resultantTargetHash } = await answer.json()
          known = resultantTargetHash
          return wasApplied
        })
      }
    },
  }
}

interface Found {
  reference: { hash: string }
}

interface Committed {
  targetBranch: { hash: string }
  addedContents: { key: { elements: string[] }; contentId: string }[] | null
}

const NAMESPACES = [['default'], ['default', 'gold']].map((elements) => ({
  type: 'PUT',
  key: { elements },
  content: { type: 'NAMESPACE', elements },
}))

const putOf = (name: string, { version, id }: { version: number; id?: string | undefined }) => ({
  type: 'PUT',
  key: { elements: ['default', 'gold', name] },
  content: {
    type: 'ICEBERG_TABLE',
    id,
    metadataLocation: `s3://lake/default/gold/${name}/metadata/${version}.metadata.json`,
    snapshotId: version,
    schemaId: 0,
    specId: 0,
    sortOrderId: 0,
  },
})

const namesIn = (prefix: string, branch: number, tables: number) =>
  Array.from({ length: tables }, (_, t) => `${prefix}-${branch}-${t}`)

const parts = (names: readonly string[]) =>
  Array.from({ length: Math.ceil(names.length / CREATED_AT_ONCE) }, (_, n) =>
    names.slice(n * CREATED_AT_ONCE, (n + 1) * CREATED_AT_ONCE),
  )

/** Runs `work` for the numbers from `from` below `to`, several at once. */
export async function eachAtOnce(
  { from, to }: { from: number; to: number },
  work: (n: number) => Promise<unknown>,
): Promise<void> {
  let next = from
  const caller = async () => {
    while (next < to) await work(next++)
  }
  await Promise.all(Array.from({ length: AT_ONCE }, caller))
}

/** Repeats `attempt` until it resolves with true. Resolves with the number of failures. */
async function retried(attempt: () => Promise<boolean>): Promise<number> {
  for (let failures = 0; failures < ATTEMPTS_MAX; failures++) if (await attempt()) return failures
  throw new Error(`a merge was refused ${ATTEMPTS_MAX} times`)
}

/** Sends JSON. Throws for any status other than 2xx and the `accepted` ones. */
async function request(
  method: string,
  url: string,
  body?: object,
  accepted: readonly number[] = [],
): Promise<Response> {
  const init = { method, headers: { 'content-type': 'application/json' } }
  const answer = await fetch(url, body === undefined ? init : { ...init, body: JSON.stringify(body) })
  if (!answer.ok && !accepted.includes(answer.status))
    throw new Error(`${method} ${url}: ${answer.status} ${await answer.text()}`)
  return answer
}
