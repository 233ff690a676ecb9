import type { Sql } from '../../drizzle/client.ts'
import { headOfMain } from '../catalog/branches.ts'
import type { Tokens } from '../catalog/tokens.ts'
import type { Clock } from '../core/clock.ts'
import { limits } from '../core/limits.ts'

// Main as it is when somebody asks. Postgres alone knows, and is asked every time; work that reads main begins before its
// answer where the last two answers were the same, and counts only if this one is as well.

/** Main at one commit, for a query service. */
export interface MainView {
  commit: bigint
  catalogUrl: string
  objectsUrl: string
  token: string
  /** See Tokens.catalogId. */
  catalogId: string
}

export interface MainReaderDeps {
  sql: Sql
  tokens: Tokens
  clock: Clock
  /** Where query services reach this API. */
  publicUrl: string
}

export interface MainReader {
  now(): Promise<MainView>
  /**
   * What `work` makes of main as it was at one moment between the call and its answer. It may be done twice: only what it
   * does with the newer state counts then, and its signal is aborted where it goes on with the older one.
   */
  read<T>(work: (main: MainView, signal: AbortSignal | null) => Promise<T>): Promise<T>
}

export function makeMainReader({ sql, tokens, clock, publicUrl }: MainReaderDeps): MainReader {
  const catalogUrl = `${publicUrl}/catalog`
  const objectsUrl = `${publicUrl}/lake/objects`
  let last: { view: MainView; expiresAt: number } | null = null
  /** The last two answers were the same. */
  let isSteady = false

  const neededUntil = () => clock.now().getTime() + limits.queryTimeoutMs + limits.rpcTimeoutMs
  /** Its token does, for a query that begins now. */
  const lasts = ({ expiresAt }: { expiresAt: number }) => expiresAt >= neededUntil()

  function viewAt(commit: number): MainView {
    isSteady = last !== null && last.view.commit === BigInt(commit)
    if (last !== null && isSteady && lasts(last)) return last.view
    const expiresAt = neededUntil() + limits.mainTokenReuseMs
    const token = tokens.read({ commit, expiresAt: new Date(expiresAt) })
    const { catalogId } = tokens
    last = { view: { commit: BigInt(commit), catalogUrl, objectsUrl, token, catalogId }, expiresAt }
    return last.view
  }

  const now = async () => viewAt(await headOfMain(sql))

  return {
    now,

    async read(work) {
      const guess = last !== null && isSteady && lasts(last) ? last.view : undefined
      const asked = now()
      if (guess === undefined) return work(await asked, null)
      const outdated = new AbortController()
      const early = work(guess, outdated.signal)
      // Whether it matters is known when main is.
      early.catch(() => {})
      try {
        const main = await asked
        if (main.commit === guess.commit) return early
        // What is short ends by itself: stopping it would cost the service more.
        setTimeout(() => outdated.abort(), limits.outdatedReadMs)
        return work(main, null)
      } catch (error) {
        outdated.abort()
        throw error
      }
    },
  }
}
