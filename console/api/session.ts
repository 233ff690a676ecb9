// The credential of this tab: an API key or an access token. It is stored in `sessionStorage` only, which ends with the tab, and
// never in an address. The inspector uses the same entry.

const KEY = 'sluice-api-key'
/** Three parts. The first part is a JSON object in base64url. */
const TOKEN = /^eyJ[\w-]*\.[\w-]+\.[\w-]+$/

type Listener = () => void

const listeners = new Set<Listener>()
/** Requests that wait for a credential. */
let asking: PromiseWithResolvers<void> | null = null
let problem = ''

/** Why the page asks for a credential. Null: it does not ask. */
export interface Question {
  problem: string
}
let question: Question | null = null

const changed = () => {
  for (const listener of listeners) listener()
}

export const subscribeToQuestion = (listener: Listener) => {
  listeners.add(listener)
  return () => listeners.delete(listener)
}
export const currentQuestion = (): Question | null => question

export const hasCredential = (): boolean => sessionStorage.getItem(KEY) !== null

/** The headers that prove who calls. */
export function credentialHeaders(): Record<string, string> {
  const key = sessionStorage.getItem(KEY)
  if (key === null) return {}
  return TOKEN.test(key) ? { authorization: `Bearer ${key}` } : { 'x-api-key': key }
}

/** Asks the person for a credential. Resolves when there is an answer; all requests share one question. */
export function askForCredential(): Promise<void> {
  problem = hasCredential() ? 'The service refused this key or token.' : ''
  asking ??= Promise.withResolvers<void>()
  question ??= { problem }
  changed()
  return asking.promise
}

/** The answer to the question. */
export function signIn(credential: string): void {
  const entered = credential.trim().replace(/^bearer /i, '')
  if (entered !== '') sessionStorage.setItem(KEY, entered)
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
