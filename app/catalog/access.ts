// Access checks of the catalog: only this file turns a token into a view of the catalog.
import type { Sql } from '../../drizzle/client.ts'
import type { TableName } from '../../lake/pipeline/names.ts'
import type { CodeVisibility } from '../access/code-visibility.ts'
import { EVERYTHING, type Resource, seesEverything, type Visible } from '../core/access.ts'
import type { Clock } from '../core/clock.ts'
import { badRequest, forbidden, noSuch, notAuthorized } from './errors.ts'
import { type Branch, findBranch, findBranchOf } from './store/branches.ts'
import type { View } from './store/tables.ts'
import type { AttemptClaims, Claims, Tokens } from './tokens.ts'

/** The warehouse of main. The warehouse of a branch is `sluice@<branch>`. */
const MAIN_WAREHOUSE = 'sluice'

export type Session = {
  view: View
  /** Null for a reader of main. */
  own: { claims: AttemptClaims; branch: Branch } | null
  /** The visibility of the token's bearer. An attempt also sees its own table. */
  seen(): Promise<Visible>
}

/** An attempt that commits to its branch. */
export type Writer = NonNullable<Session['own']> & {
  /** Metadata file of the committed table on the branch; null: the branch has no such table. */
  metadataLocation: string | null
}

export type Access = ReturnType<typeof makeAccess>

export interface AccessDeps {
  sql: Sql
  tokens: Tokens
  clock: Clock
  sight: CodeVisibility
}

/** Visibility of a token's bearer. An attempt sees what its run may see; a reader sees what its caller may see. */
export function visibilityOf(sight: CodeVisibility, claims: Claims): Promise<Visible> {
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

    /** The view of a warehouse. An attempt sees its branch; a reader sees main as of the token's commit. */
    async session(request: Request, warehouse: string): Promise<Session> {
      const claims = claimsFor(request, warehouse)
      const seen = () => visibilityOf(sight, claims)
      if (claims.kind === 'read') return { view: { commit: claims.commit, branch: null }, own: null, seen }
      const branch = await branchOf(claims)
      return { view: { commit: branch.base, branch: branch.name }, own: { claims, branch }, seen }
    },

    /**
     * Loads the branch and the table's metadata location in one statement. Checks the token before the table name, so a request
     * without a valid token learns nothing about names.
     */
    async writer(request: Request, warehouse: string, tableNamed: () => TableName): Promise<Writer> {
      const claims = claimsFor(request, warehouse)
      if (claims.kind === 'read') throw forbidden('main is only moved by merging a branch')
      const found = await findBranchOf(sql, claims.branch, tableNamed())
      if (found === null) throw noSuch(`branch ${claims.branch}`)
      return { claims, ...found }
    },

    /** Throws 403 for a commit that is newer than the token's view, and for a token with restricted visibility. */
    async checkCommit(request: Request, commit: number): Promise<void> {
      const claims = claimsOf(request)
      const newest = claims.kind === 'read' ? claims.commit : (await branchOf(claims)).base
      if (commit > newest) throw forbidden(`this token reads main up to commit ${newest}`)
      if (!seesEverything(await visibilityOf(sight, claims))) throw forbidden('this token does not list main')
    },

    /**
     * Decides who reads landing files, and from which zones. `attempt` is null for a preview, which reads its own namespace
     * only. An attempt needs an open branch.
     */
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
        zones: (await visibilityOf(sight, claims)).zones,
        mayArchive: async (zone) => attempt !== null && sight.mayArchive(attempt.runId, zone),
      }
    },

    /** The claims of an attempt; throws unless its branch is open. */
    async openAttempt(request: Request): Promise<AttemptClaims> {
      const claims = claimsOf(request)
      if (claims.kind !== 'attempt') throw forbidden('this needs the token of an attempt')
      const branch = await branchOf(claims)
      if (branch.state !== 'open') throw forbidden(`the branch ${branch.name} is ${branch.state}`)
      return claims
    },
  }
}

/** The claims of the request's bearer token; null without a valid token. */
export function bearerClaims(request: Request, tokens: Tokens, clock: Clock): Claims | null {
  const [, token] = /^bearer +([\w.-]+)$/i.exec(request.headers.get('authorization') ?? '') ?? []
  return token === undefined ? null : tokens.verify(token, clock.now())
}

/** Parses a commit number of a path or query. */
export function commitNumber(name: string, text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw badRequest(`${name}: must be the number of a commit`)
  return Number(text)
}
