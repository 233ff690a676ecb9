// Keys for files of the lake. Those for one table are valid for a quarter of an hour, and those for the work of a
// token as long as the token. Nothing is stored: the session token holds the grant, and the key id and the secret follow from the token by
// HMAC. All replicas share the key of the HMAC (catalog/store/token-key.ts).
import { createHmac, timingSafeEqual } from 'node:crypto'
import type { TableName } from '../../ground/names.ts'
import type { Clock } from '../core/clock.ts'
import type { Identity } from '../core/identity.ts'
import type { Work } from '../core/work.ts'
import { S3Error } from './errors.ts'

/** Lifetime of credentials (beyond.md, section 10). */
const CREDENTIALS_MS = 900_000
/** Clients must name a region, and this service has none. */
export const REGION = 'us-east-1'
/** Longest accepted session token. A token has some hundred bytes, or a few thousand with the roles of its caller. */
const TOKEN_LENGTH_MAX = 12_288
/** Purposes of the shared key. Tokens of attempts start with another text, so neither kind is valid as the other. */
const PURPOSE = { token: 'sluice-s3-token-1.', id: 'sluice-s3-id-1.', secret: 'sluice-s3-secret-1.' }

/** The rights of credentials. */
export type Grant = TableGrant | WorkGrant

/** The rights of an engine that works with the token of an attempt or a preview: those of the token. */
interface WorkGrant {
  work: Work
  /** Milliseconds since 1970. */
  expiresAt: number
}

/** The rights of a caller on the files of one table. */
export interface TableGrant {
  /** Keys that begin with one of these prefixes are readable. Each prefix ends in a slash. */
  prefixes: readonly string[]
  /** The directory of a table that takes new files; null: the credentials are read-only. */
  write: string | null
  /** The table that the credentials were granted for, as its caller saw it. */
  table: TableName
  view: { commit: number; branch: string | null }
  /** When the branch was opened, in milliseconds since 1970. The credentials end with this branch, not with its name. */
  opened?: number
  /** The caller who received the credentials. */
  principal: Pick<Identity, 'kind' | 'userId' | 'name' | 'roles'>
  /** Milliseconds since 1970. */
  expiresAt: number
}

export interface S3Credentials {
  accessKeyId: string
  secretAccessKey: string
  sessionToken: string
  expiresAt: number
}

export type CredentialIssuer = ReturnType<typeof makeCredentials>

/** @param key the signing key; credentials of another key are refused. */
export function makeCredentials(key: string, clock: Clock) {
  const mac = (purpose: string, text: string) => createHmac('sha256', key).update(purpose + text)
  const idOf = (token: string) => `SLUICE${mac(PURPOSE.id, token).digest('hex').slice(0, 14).toUpperCase()}`
  const secretOf = (token: string) => mac(PURPOSE.secret, token).digest('base64url')
  const sign = (grant: Grant): S3Credentials => {
    const payload = Buffer.from(JSON.stringify(grant)).toString('base64url')
    const sessionToken = `${payload}.${mac(PURPOSE.token, payload).digest('base64url')}`
    return {
      accessKeyId: idOf(sessionToken),
      secretAccessKey: secretOf(sessionToken),
      sessionToken,
      expiresAt: grant.expiresAt,
    }
  }

  return {
    /** Credentials for the files of a table, valid for a quarter of an hour. */
    issue: (grant: Omit<TableGrant, 'expiresAt'>): S3Credentials =>
      sign({ ...grant, expiresAt: clock.now().getTime() + CREDENTIALS_MS }),

    /** Credentials for the work of a token, valid as long as the token. */
    issueForWork: (work: Work): S3Credentials => sign({ work, expiresAt: work.expiresAt }),

    /**
     * The grant and the secret of presented credentials. Throws InvalidToken for a token of another key, and InvalidAccessKeyId
     * for an id of other credentials. The caller checks the signature first and then the expiry.
     */
    open(accessKeyId: string, sessionToken: string): { grant: Grant; secretAccessKey: string } {
      const [payload = '', signature = '', ...rest] =
        sessionToken.length > TOKEN_LENGTH_MAX ? [] : sessionToken.split('.')
      const expected = mac(PURPOSE.token, payload).digest()
      const presented = Buffer.from(signature, 'base64url')
      if (
        rest.length > 0 ||
        presented.length !== expected.length ||
        !timingSafeEqual(presented, expected) ||
        presented.toString('base64url') !== signature
      )
        throw new S3Error('InvalidToken', 'The provided token is malformed or otherwise invalid.')
      if (accessKeyId !== idOf(sessionToken)) throw unknownKey()
      // The signature proves that `issue` created this grant, so it needs no schema check.
      const grant: Grant = JSON.parse(Buffer.from(payload, 'base64url').toString())
      return { grant, secretAccessKey: secretOf(sessionToken) }
    },

    /** Throws ExpiredToken. */
    checkUnexpired({ expiresAt }: Grant): void {
      if (expiresAt <= clock.now().getTime())
        throw new S3Error('ExpiredToken', 'The provided token has expired: load the table again.')
    },
  }
}

export const unknownKey = () =>
  new S3Error('InvalidAccessKeyId', 'The AWS access key Id you provided does not exist in our records.')
