// Who asks, and what he may see: the one place where a token becomes a view of the catalog.
import type { Sql } from '../../drizzle/client.ts'
import type { TableName } from '../../lake/pipeline/names.ts'
import type { CodeSight } from '../access/code-sight.ts'
import { EVERYTHING, type Resource, seesEverything, type Visible } from '../core/access.ts'
import type { Clock } from '../core/clock.ts'
import { badRequest, forbidden, noSuch, notAuthorized } from './errors.ts'
import { type Branch, findBranch, findBranchOf } from './store/branches.ts'
import type { View } from './store/tables.ts'
import type { AttemptClaims, Claims, Tokens } from './tokens.ts'

/** Main's warehouse; a branch's is `sluice@<branch>`. */
const MAIN_WAREHOUSE = 'sluice'

export type Session = {
  view: View
  /** Null: a reader of main. */
  own: { claims: AttemptClaims; branch: Branch } | null
  /** What exists for it, besides its own table. */
  seen(): Promise<Visible>
}

/** Who commits to a branch. */
export type Writer = NonNullable<Session['own']> & {
  /** Where the branch has the metadata of the table that is committed; null: there is none. */
  metadataLocation: string | null
}

export type Access = ReturnType<typeof makeAccess>

export interface AccessDeps {
  sql: Sql
  tokens: Tokens
  clock: Clock
  sight: CodeSight
}

/** What the bearer of a token sees: a run what its owner does, a reader what the caller does that stands behind it. */
export function seenBy(sight: CodeSight, claims: Claims): Promise<Visible> {
  if (claims.kind === 'attempt') return sight.ofRun(claims.runId)
  return claims.reader ? sight.ofReader(claims.reader) : Promise.resolve(EVERYTHING)
}

export function makeAccess({ sql, tokens, clock, sight }: AccessDeps) {
  const claimsOf = (request: Request): Claims => {
    const claims = bearerClaims(request, tokens, clock)
    if (claims === null) throw notAuthorized('a valid bearer token is needed')
    return claims
  }

  function claimsFor(request: Request, warehouse: string): Claims {
    const claims = claimsOf(request)
    const own = claims.kind === 'attempt' ? `${MAIN_WAREHOUSE}@${claims.branch}` : MAIN_WAREHOUSE
    if (warehouse !== own) throw forbidden(`this token is for the warehouse ${own}`)
    return claims
  }

  async function branchOf(claims: AttemptClaims): Promise<Branch> {
    const branch = await findBranch(sql, claims.branch)
    if (branch === null) throw noSuch(`branch ${claims.branch}`)
    return branch
  }

  return {
    claimsOf,

    /** What a request sees of a warehouse: an attempt its branch, a reader main as of the token's commit. */
    async session(request: Request, warehouse: string): Promise<Session> {
      const claims = claimsFor(request, warehouse)
      const seen = () => seenBy(sight, claims)
      if (claims.kind === 'read') return { view: { commit: claims.commit, branch: null }, own: null, seen }
      const branch = await branchOf(claims)
      return { view: { commit: branch.base, branch: branch.name }, own: { claims, branch }, seen }
    },

    /** What a commit of one table needs to know of its branch, in one question. Who has no token learns nothing of names. */
    async writer(request: Request, warehouse: string, tableNamed: () => TableName): Promise<Writer> {
      const claims = claimsFor(request, warehouse)
      if (claims.kind === 'read') throw forbidden('main is only moved by merging a branch')
      const found = await findBranchOf(sql, claims.branch, tableNamed())
      if (found === null) throw noSuch(`branch ${claims.branch}`)
      return { claims, ...found }
    },

    /** Refuses a commit of main that is newer than the request may see, and who does not see all of main. */
    async checkCommit(request: Request, commit: number): Promise<void> {
      const claims = claimsOf(request)
      const newest = claims.kind === 'read' ? claims.commit : (await branchOf(claims)).base
      if (commit > newest) throw forbidden(`this token reads main up to commit ${newest}`)
      if (!seesEverything(await seenBy(sight, claims))) throw forbidden('this token does not list main')
    },

    /** Who reads landing files: an attempt whose branch is open, or (null) a preview in its namespace; and of which zones. */
    async landingReader(
      request: Request,
      namespace: string,
    ): Promise<{
      attempt: AttemptClaims | null
      zones: Visible['zones']
      mayArchive(zone: Resource): Promise<boolean>
    }> {
      const claims = claimsOf(request)
      const isPreview = claims.kind === 'read' && claims.landing === namespace
      const attempt = isPreview ? null : await this.openAttempt(request)
      return {
        attempt,
        zones: (await seenBy(sight, claims)).zones,
        mayArchive: async (zone) => attempt !== null && sight.mayArchive(attempt.runId, zone),
      }
    },

    /** The claims of an attempt whose branch is open. */
    async openAttempt(request: Request): Promise<AttemptClaims> {
      const claims = claimsOf(request)
      if (claims.kind !== 'attempt') throw forbidden('this needs the token of an attempt')
      const branch = await branchOf(claims)
      if (branch.state !== 'open') throw forbidden(`the branch ${branch.name} is ${branch.state}`)
      return claims
    },
  }
}

/** The claims of the request's bearer token; null when it has none that is valid now. */
export function bearerClaims(request: Request, tokens: Tokens, clock: Clock): Claims | null {
  const [, token] = /^bearer +([\w.-]+)$/i.exec(request.headers.get('authorization') ?? '') ?? []
  return token === undefined ? null : tokens.verify(token, clock.now())
}

/** A commit number out of a path or query. */
export function commitNumber(name: string, text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw badRequest(`${name}: must be the number of a commit`)
  return Number(text)
}
