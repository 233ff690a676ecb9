import { ApiError, errorOf, messageOf } from './errors.ts'
import { credentialHeaders, currentCredential, nextCredential, storeCredential } from './session.ts'

/** The address of the console, for example `https://sluice.example/console/`. The script lies in its folder `assets`. */
export const CONSOLE = new URL('../', import.meta.url)
export const ROOT = new URL('../', CONSOLE)
export const API = new URL('api/v1/', ROOT)

/** A text as one segment of a path. It may contain any character. */
export const segment = (text: string): string => encodeURIComponent(text)

/** A path below the API whose values are segments, for example `runs/${id}/logs`. */
export const path = (texts: TemplateStringsArray, ...values: readonly string[]): string =>
  String.raw({ raw: texts }, ...values.map(segment))

/**
 * `fetch` with the credential of this tab. A 401 asks for a credential and repeats the request. Throws ApiError with status 0 when
 * no answer arrives; an aborted signal throws its reason.
 */
export async function authorizedFetch(input: RequestInfo | URL, init: RequestInit = {}): Promise<Response> {
  for (;;) {
    const credential = currentCredential()
    const response = await send(input, init, credential)
    if (response.status !== 401) return response
    const { message } = errorOf(401, await response.json().catch(() => null))
    await nextCredential(credential, message)
  }
}

/**
 * Stores a credential after one request with it was accepted. So a wrong entry counts as one wrong credential, however many
 * requests wait. Throws ApiError if the service does not accept the credential.
 */
export async function signIn(entered: string): Promise<void> {
  const credential = entered.trim().replace(/^bearer +/i, '')
  if (!/^[\x21-\x7e]+$/.test(credential))
    throw new ApiError(401, '', 'it contains a space or a character that is not ASCII')
  await accepted(await send(new URL('features', API), {}, credential))
  storeCredential(credential)
}

async function send(
  input: RequestInfo | URL,
  init: RequestInit,
  credential: string | null,
): Promise<Response> {
  const headers = new Headers(init.headers)
  for (const [name, value] of Object.entries(credentialHeaders(credential))) headers.set(name, value)
  try {
    return await fetch(input, { ...init, headers })
  } catch (error) {
    if (init.signal?.aborted) throw error
    throw new ApiError(0, 'LOST', `no answer from the service: ${messageOf(error)}`, null, { cause: error })
  }
}

/** A response with status 2xx. Throws ApiError for every other one. */
export async function accepted(response: Response): Promise<Response> {
  if (response.ok) return response
  const body: unknown = await response.json().catch(() => null)
  throw errorOf(response.status, body, response.headers)
}

/** The body of an answer below the API, for example a file. An image or a link cannot send the credential. */
export const readBlob = async (path: string, signal?: AbortSignal): Promise<Blob> =>
  (await accepted(await authorizedFetch(new URL(path, API), signal ? { signal } : {}))).blob()
