// Access checks of the catalog: only this file turns a token into a view of the catalog.
import type { Sql } from '../../drizzle/client.ts'
import type { TableName } from '../../ground/names.ts'
import type { CodeVisibility } from '../access/code-visibility.ts'
import { EVERYTHING, type Resource, seesEverything, type Visible } from '../core/access.ts'
import type { Clock } from '../core/clock.ts'
import type { AttemptClaims, Claims } from '../iceberg/claims.ts'
import { badRequest, forbidden, noSuch, notAuthorized } from '../iceberg/errors.ts'
import type { Session, Sessions, Writer } from '../iceberg/session.ts'
import { nameIn, warehouseOf } from '../iceberg/warehouse.ts'
import { type Branch, findBranch, findBranchOf } from '../versions/store/branches.ts'
import type { Tokens } from './tokens.ts'

export type Access = ReturnType<typeof makeAccess>

interface AccessDeps {
  sql: Sql
  tokens: Tokens
  clock: Clock
  codeVisibility: CodeVisibility
}

/** Visibility of a token's bearer. An attempt sees what its run may see; a reader sees what its caller may see. */
export function visibilityOf(codeVisibility: CodeVisibility, claims: Claims): Promise<Visible> {
  if (claims.kind === 'attempt') return codeVisibility.ofRun(claims.runId)
  return claims.reader ? codeVisibility.ofReader(claims.reader) : Promise.resolve(EVERYTHING)
}

export function makeAccess({ sql, tokens, clock, codeVisibility }: AccessDeps) {
  const claimsOf = (request: Request): Claims => {
    const claims = bearerClaims(request, tokens, clock)
    if (claims === null) throw notAuthorized('a valid bearer token is needed')
    return claims
  }

  function claimsFor(request: Request, prefix: string): Claims {
    const claims = claimsOf(request)
    const own = claims.kind === 'attempt' ? claims.branch : null
    if (nameIn(prefix) !== own) throw forbidden(`this token is valid for warehouse ${warehouseOf(own)} only`)
    return claims
  }

  async function branchOf(claims: AttemptClaims): Promise<Branch> {
    const branch = await findBranch(sql, claims.branch)
    if (branch === null) throw noSuch(`branch ${claims.branch}`)
    return branch
  }

  const sessions: Sessions = {
    /** An attempt sees its branch; a reader sees the branch or commit that its token names. */
    async session(request: Request, prefix: string): Promise<Session> {
      const claims = claimsFor(request, prefix)
      const visible = () => visibilityOf(codeVisibility, claims)
      if (claims.kind === 'read')
        return {
          view: { commit: claims.commit, branch: claims.branch ?? null },
          isMain: false,
          own: null,
          visible,
        }
      const branch = await branchOf(claims)
      // A write answers with a conflict, because an engine may repeat it.
      if (branch.state !== 'open' && request.method !== 'POST')
        throw forbidden(`branch ${branch.name} is ${branch.state}, not open`)
      return {
        view: { commit: branch.base, branch: branch.name },
        isMain: false,
        own: { claims, branch },
        visible,
      }
    },

    /**
     * Loads the branch and the table's metadata location in one statement. Checks the token before the table name, so a request
     * without a valid token learns nothing about names.
     */
    async writer(request: Request, prefix: string, tableNamed: () => TableName): Promise<Writer> {
      const claims = claimsFor(request, prefix)
      if (claims.kind === 'read') throw forbidden('main is read-only: commit to the branch of an attempt')
      const found = await findBranchOf(sql, claims.branch, tableNamed())
      if (found === null) throw noSuch(`branch ${claims.branch}`)
      return { claims, ...found }
    },
  }

  return {
    claimsOf,
    sessions,

    /** Throws 403 for a commit that is newer than the token's view, and for a token with restricted visibility. */
    async checkCommit(request: Request, commit: number): Promise<void> {
      const claims = claimsOf(request)
      const newest = claims.kind === 'read' ? claims.commit : (await branchOf(claims)).base
      if (commit > newest)
        throw forbidden(`commit ${commit} is newer than commit ${newest}, the newest one this token may read`)
      if (!seesEverything(await visibilityOf(codeVisibility, claims)))
        throw forbidden('this token may not list all tables of main: its visibility is restricted')
    },

    /** Throws 403 unless the token names this branch, and for a token with restricted visibility. */
    async checkBranch(request: Request, branch: string): Promise<void> {
      const claims = claimsOf(request)
      if (claims.kind !== 'read' || claims.branch !== branch)
        throw forbidden(`this token may not list the tables of branch ${branch}`)
      if (!seesEverything(await visibilityOf(codeVisibility, claims)))
        throw forbidden(
          `this token may not list all tables of branch ${branch}: its visibility is restricted`,
        )
    },

    /**
     * Returns who reads landing files, and which zones this reader sees. `attempt` is null for a preview, which reads only its
     * own namespace. Throws unless the branch of an attempt is open.
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
        zones: (await visibilityOf(codeVisibility, claims)).zones,
        mayArchive: async (zone) => attempt !== null && codeVisibility.mayArchive(attempt.runId, zone),
      }
    },

    /** The claims of an attempt; throws unless its branch is open. */
    async openAttempt(request: Request): Promise<AttemptClaims> {
      const claims = claimsOf(request)
      if (claims.kind !== 'attempt') throw forbidden('the token of an attempt is required')
      const branch = await branchOf(claims)
      if (branch.state !== 'open') throw forbidden(`branch ${branch.name} is ${branch.state}, not open`)
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
  if (!/^\d{1,15}$/.test(text)) throw badRequest(`${name}: must be a commit number`)
  return Number(text)
}
