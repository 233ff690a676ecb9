// The credential of this tab: an API key or an access token. It is stored in `sessionStorage` only, which ends with the tab, and
// never in an address.

const KEY = 'sluice-api-key'
/** Three parts. The first part is a JSON object in base64url. */
const TOKEN = /^eyJ[\w-]*\.([\w-]+)\.[\w-]+$/

type Listener = () => void

const listeners = new Set<Listener>()
/** Requests that wait for a credential. */
let asking: PromiseWithResolvers<void> | null = null

/** Why the page asks for a credential. */
interface Question {
  /** Empty: the tab had no credential. */
  problem: string
}
/** Null: the page does not ask. */
let question: Question | null = null

const changed = () => {
  for (const listener of listeners) listener()
}

export const subscribeToSession = (listener: Listener) => {
  listeners.add(listener)
  return () => listeners.delete(listener)
}
export const currentQuestion = (): Question | null => question

export const currentCredential = (): string | null => sessionStorage.getItem(KEY)

export const hasCredential = (): boolean => currentCredential() !== null

/** The headers that prove who calls. */
export function credentialHeaders(credential: string | null = currentCredential()): Record<string, string> {
  if (credential === null) return {}
  return TOKEN.test(credential) ? { authorization: `Bearer ${credential}` } : { 'x-api-key': credential }
}

/**
 * Resolves when the tab has a credential that the service accepts. `refused` is the credential of a request with status 401, and
 * `reason` is the message of that response. All requests share one question to the person.
 */
export function nextCredential(refused: string | null, reason: string): Promise<void> {
  // Another request has asked in the meantime.
  if (asking === null && currentCredential() !== refused) return Promise.resolve()
  asking ??= Promise.withResolvers<void>()
  question ??= {
    problem: refused === null ? '' : `The service no longer accepts the key or token of this tab: ${reason}.`,
  }
  changed()
  return asking.promise
}

/** The caller whose data this page has loaded. Null: none so far. */
let reader: string | null = null

/**
 * Stores a credential that the service has accepted. Requests that wait are sent again. For another person the page is loaded
 * anew, because that person may see less, and must not send the requests of the first person.
 */
export function storeCredential(credential: string): void {
  const next = callerOf(credential)?.id ?? null
  reader ??= callerOf(currentCredential())?.id ?? next
  sessionStorage.setItem(KEY, credential)
  if (next !== reader) {
    location.reload()
    return
  }
  question = null
  asking?.resolve()
  asking = null
  changed()
}

/** Forgets the credential and everything that was loaded with it. */
export function signOut(): void {
  sessionStorage.removeItem(KEY)
  location.reload()
}

export interface Caller {
  /** The subject of an access token; empty for an API key. */
  id: string
  name: string
}

/** The person whom an access token names. This is for display: only the service can verify a token. */
export function callerOf(credential: string | null): Caller | null {
  if (credential === null) return null
  const claims = claimsIn(TOKEN.exec(credential)?.[1] ?? '')
  const [id = '', ...names] = ['sub', 'name', 'preferred_username', 'email'].map((claim) => {
    const value = claims[claim]
    return typeof value === 'string' ? value : ''
  })
  return { id, name: names.find((name) => name !== '') ?? (id || 'API key') }
}

function claimsIn(part: string): Record<string, unknown> {
  try {
    const binary = atob(part.replaceAll('-', '+').replaceAll('_', '/'))
    const claims: unknown = JSON.parse(
      new TextDecoder().decode(Uint8Array.from(binary, (c) => c.charCodeAt(0))),
    )
    return typeof claims === 'object' && claims !== null ? { ...claims } : {}
  } catch {
    return {}
  }
}
