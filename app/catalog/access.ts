// Who asks, and what he may see: the one place where a token becomes a view of the catalog.
import type { Sql } from '../../drizzle/client.ts'
import type { Clock } from '../clock.ts'
import { badRequest, forbidden, noSuch, notAuthorized } from './errors.ts'
import { type Branch, findBranch, type View } from './queries.ts'
import type { AttemptClaims, Claims, Tokens } from './tokens.ts'

/** Main's warehouse; a branch's is `sluice@<branch>`. */
const MAIN_WAREHOUSE = 'sluice'

export type Session = {
  view: View
  /** Null: a reader of main. */
  own: { claims: AttemptClaims; branch: Branch } | null
}

export type Access = ReturnType<typeof makeAccess>

export function makeAccess({ sql, tokens, clock }: { sql: Sql; tokens: Tokens; clock: Clock }) {
  const claimsOf = (request: Request): Claims => {
    const claims = bearerClaims(request, tokens, clock)
    if (claims === null) throw notAuthorized('a valid bearer token is needed')
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
      const claims = claimsOf(request)
      const own = claims.kind === 'attempt' ? `${MAIN_WAREHOUSE}@${claims.branch}` : MAIN_WAREHOUSE
      if (warehouse !== own) throw forbidden(`this token is for the warehouse ${own}`)
      if (claims.kind === 'read') return { view: { commit: claims.commit, branch: null }, own: null }
      const branch = await branchOf(claims)
      return { view: { commit: branch.base, branch: branch.name }, own: { claims, branch } }
    },

    /** Refuses a commit of main that is newer than the request may see. */
    async checkCommit(request: Request, commit: number): Promise<void> {
      const claims = claimsOf(request)
      const newest = claims.kind === 'read' ? claims.commit : (await branchOf(claims)).base
      if (commit > newest) throw forbidden(`this token reads main up to commit ${newest}`)
    },

    /** The claims of who reads landing files: an attempt whose branch is open, or a preview in its namespace. */
    async landingReader(request: Request, namespace: string): Promise<AttemptClaims | 'preview'> {
      const claims = claimsOf(request)
      return claims.kind === 'read' && claims.landing === namespace ? 'preview' : this.openAttempt(request)
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
