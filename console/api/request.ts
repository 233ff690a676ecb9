import { ApiError, errorOf, messageOf } from './errors.ts'
import { askForCredential, credentialHeaders } from './session.ts'

/** The address of the console, for example `https://sluice.example/console/`. The script lies in its folder `assets`. */
export const CONSOLE = new URL('../', import.meta.url)
export const ROOT = new URL('../', CONSOLE)
export const API = new URL('api/v1/', ROOT)

/**
 * `fetch` with the credential of this tab. A 401 asks for a credential and repeats the request. Throws ApiError with status 0 when
 * no answer arrives; an aborted signal throws its reason.
 */
export async function authorizedFetch(input: RequestInfo | URL, init: RequestInit = {}): Promise<Response> {
  for (;;) {
    const headers = new Headers(init.headers)
    for (const [name, value] of Object.entries(credentialHeaders())) headers.set(name, value)
    const response = await fetch(input, { ...init, headers }).catch((error: unknown) => {
      if (init.signal?.aborted) throw error
      throw new ApiError(0, 'LOST', `no answer from the service: ${messageOf(error)}`, null, { cause: error })
    })
    if (response.status !== 401) return response
    await askForCredential()
  }
}

/** A response with status 2xx. Throws ApiError for every other one. */
export async function accepted(response: Response): Promise<Response> {
  if (response.ok) return response
  const body: unknown = await response.json().catch(() => null)
  throw errorOf(response.status, body, response.headers)
}
