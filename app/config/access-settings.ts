import { readFileSync } from 'node:fs'
import { LICENSE_PUBLIC_KEY, type License, readLicense } from './license.ts'
import type { PluginSettings } from './plugin-settings.ts'
import { isSafeAddress } from './safe-address.ts'
import type { Variables } from './variables.ts'

export interface ApiKey {
  /** Shown in logs and to people. Several keys allow a rotation: the old key stays valid beside the new key. */
  name: string
  key: string
}

/** A key with fewer characters can be guessed. */
export const KEY_LENGTH_MIN = 16

export interface OidcSettings {
  issuer: string
  audience: string
  clockSkewSeconds: number
  /** Name of the claim, or its path with dots: `realm_access.roles`. */
  rolesClaim: string
  /** Subjects that are administrators regardless of their roles. */
  admins: readonly string[]
}

/** Names appear in logs. */
const KEY_NAME = /^[\w.-]{1,64}$/

export function parseApiKeys(vars: Variables): ApiKey[] {
  const bad = (why: string) => vars.bad('PLATFORM_API_KEYS', why)
  const single = vars.text('PLATFORM_API_KEY')
  const keys: ApiKey[] = single === '' ? [] : [{ name: 'default', key: single }]
  // The error texts never contain the key.
  for (const [at, entry] of vars.text('PLATFORM_API_KEYS').split(',').entries()) {
    if (entry.trim() === '') continue
    const [name = '', ...rest] = entry.trim().split(':')
    const key = rest.join(':').trim()
    if (rest.length === 0 || !KEY_NAME.test(name)) bad(`entry ${at + 1} does not have the form name:key`)
    else if (keys.some((other) => other.name === name)) bad(`the key name '${name}' is used twice`)
    else if (key.length < KEY_LENGTH_MIN) bad(`the key '${name}' has fewer than ${KEY_LENGTH_MIN} characters`)
    else keys.push({ name, key })
  }
  return keys
}

const CLOCK_SKEW_SECONDS = '30'

const CLOCK_SKEW_SECONDS_MAX = 300

export function parseOidc(vars: Variables): OidcSettings | null {
  const issuer = vars.text('OIDC_ISSUER')
  if (issuer === '') return null
  if (!isSafeAddress(issuer))
    vars.bad('OIDC_ISSUER', 'must be an https address, or an http address of this machine')
  const audience = vars.text('OIDC_AUDIENCE')
  if (audience === '')
    vars.bad('OIDC_AUDIENCE', 'is required with OIDC_ISSUER, so that tokens for other services are refused')
  const clockSkewSeconds = Number(vars.text('OIDC_CLOCK_SKEW_SECONDS', CLOCK_SKEW_SECONDS))
  if (
    !Number.isInteger(clockSkewSeconds) ||
    clockSkewSeconds < 0 ||
    clockSkewSeconds > CLOCK_SKEW_SECONDS_MAX
  )
    vars.bad('OIDC_CLOCK_SKEW_SECONDS', `must be 0 to ${CLOCK_SKEW_SECONDS_MAX} seconds`)
  const rolesClaim = vars.text('OIDC_ROLES_CLAIM', 'roles')
  return { issuer, audience, clockSkewSeconds, rolesClaim, admins: vars.list('PRO_ADMINS') }
}

export const PLUGIN_VARIABLES = {
  auth: 'AUTH_PLUGIN_URL',
  sharing: 'SHARING_PLUGIN_URL',
  enforcement: 'ENFORCEMENT_PLUGIN_URL',
} as const

export function parsePlugins(vars: Variables): PluginSettings {
  const isPlainAllowed = vars.text('ALLOW_PLAIN_PLUGINS') === 'true'
  const address = (name: string) => {
    const value = vars.text(name)
    if (value === '') return null
    const url = URL.canParse(value) ? new URL(value) : null
    // The error text omits the address, because it may contain a password.
    if (
      url === null ||
      !RPC_PROTOCOL.test(url.protocol) ||
      url.username ||
      url.password ||
      url.search ||
      url.hash
    )
      vars.bad(name, 'must be an http(s) or grpc(s) address, without user, query or fragment')
    else if (!isPlainAllowed && !isSafeAddress(value.replace(/^grpc/i, 'http')))
      vars.bad(
        name,
        'must be https, grpcs or an address of this machine: the plugin gets credentials (or set ALLOW_PLAIN_PLUGINS=true)',
      )
    return value.replace(/\/+$/, '')
  }
  const auth = address(PLUGIN_VARIABLES.auth)
  const sharing = address(PLUGIN_VARIABLES.sharing)
  const enforcement = address(PLUGIN_VARIABLES.enforcement)
  if (sharing !== null && enforcement === null)
    vars.bad(
      'SHARING_PLUGIN_URL',
      'requires ENFORCEMENT_PLUGIN_URL: the built-in enforcement ignores the grants of a plugin',
    )
  const token = vars.text('PLUGIN_TOKEN')
  if ((auth ?? sharing ?? enforcement) !== null && !/^[\x21-\x7e]{16,1024}$/.test(token))
    vars.bad(
      'PLUGIN_TOKEN',
      'is required with a plugin: set 16 to 1024 printable ASCII characters without spaces',
    )
  return { auth, sharing, enforcement, token, admins: vars.list('PRO_ADMINS') }
}

export function parseLicense(vars: Variables): License | null {
  const inline = vars.text('LICENSE')
  const text = inline || readLicenseFile(vars)
  if (text === null) return null
  if (text === '') {
    vars.bad('EDITION', 'pro requires a licence: set LICENSE or LICENSE_FILE')
    return null
  }
  const publicKey = vars.text('LICENSE_PUBLIC_KEY', LICENSE_PUBLIC_KEY)
  const license = readLicense(text, { publicKey, now: new Date() })
  if (typeof license !== 'string') return license
  vars.bad(inline === '' ? 'LICENSE_FILE' : 'LICENSE', license)
  return null
}

/** Null: the file cannot be read. */
function readLicenseFile(vars: Variables): string | null {
  const file = vars.text('LICENSE_FILE')
  try {
    return file && readFileSync(file, 'utf8').trim()
  } catch {
    vars.bad('LICENSE_FILE', `${file} cannot be read`)
    return null
  }
}

/** Protocols of sidecar addresses: Connect (`http`, `https`), or native gRPC without and with TLS (`grpc`, `grpcs`). */
export const RPC_PROTOCOL = /^(https?|grpcs?):$/
