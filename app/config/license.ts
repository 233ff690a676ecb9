// The licence of the Pro edition: a compact JWS (EdDSA) over `{type, expires_at, max_users}`. It is verified offline when the
// configuration is read. node:crypto verifies a signature synchronously, which jose cannot.
import { Buffer } from 'node:buffer'
import { createPublicKey, type KeyObject, verify } from 'node:crypto'

export interface License {
  type: string
  /** RFC 3339. */
  expiresAt: string
  maxUsers: number
}

/** The public key of the vendor: `x` of an Ed25519 key (RFC 8037). */
export const LICENSE_PUBLIC_KEY = 'OuGodqRG-ejpwO071LKp3Z0M4iVwedA9xIBlETP7XIk'

/** The licence, or one line that says why the text is invalid. */
export function readLicense(
  text: string,
  { publicKey, now }: { publicKey: string; now: Date },
): License | string {
  const [header = '', payload = '', signature = '', ...rest] = text.split('.')
  if (signature === '' || rest.length > 0 || text.length > 8_192)
    return 'is not a signed licence (a compact JWS of at most 8192 characters)'
  if (fieldsOf(header).alg !== 'EdDSA') return 'is not signed with EdDSA'
  const key = keyOf(publicKey)
  if (key === null) return 'cannot be verified: LICENSE_PUBLIC_KEY is not an Ed25519 key'
  if (!verify(null, Buffer.from(`${header}.${payload}`), key, Buffer.from(signature, 'base64url')))
    return 'has an invalid signature: it was signed with another key, or was changed'
  const { type, expires_at: expiresAt, max_users: maxUsers } = fieldsOf(payload)
  if (typeof type !== 'string' || type === '') return 'has no type'
  if (typeof expiresAt !== 'string' || Number.isNaN(Date.parse(expiresAt))) return 'has no valid expires_at'
  if (typeof maxUsers !== 'number' || !Number.isInteger(maxUsers) || maxUsers < 1)
    return 'has no valid max_users'
  if (Date.parse(expiresAt) <= now.getTime()) return `expired on ${expiresAt}`
  return { type, expiresAt, maxUsers }
}

function keyOf(x: string): KeyObject | null {
  try {
    return createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' })
  } catch {
    return null
  }
}

function fieldsOf(part: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(Buffer.from(part, 'base64url').toString('utf8'))
    return typeof value === 'object' && value !== null ? { ...value } : {}
  } catch {
    return {}
  }
}
