import { Buffer } from 'node:buffer'

/** Like `fetch`, but reads the whole response before it returns, or rejects above `bytesMax`. Follows no redirect. */
export const boundedFetch = (bytesMax: number): typeof fetch => {
  const bounded = async (input: string | URL | Request, init: RequestInit = {}) => {
    const response = await fetch(input, { ...init, redirect: 'error' })
    const body = await wholeOf(response, bytesMax, init.signal ?? null)
    const { status, headers } = response
    // The body is already decoded, so its length differs from the header.
    const plain = new Headers(headers)
    plain.delete('content-encoding')
    plain.delete('content-length')
    return new Response(body.byteLength === 0 ? null : body, { status, headers: plain })
  }
  return Object.assign(bounded, { preconnect: fetch.preconnect })
}

/** Rejects when the body is larger, and when `signal` is aborted while the body arrives slowly. */
async function wholeOf(
  response: Response,
  bytesMax: number,
  signal: AbortSignal | null,
): Promise<Uint8Array<ArrayBuffer>> {
  if (response.body === null) return new Uint8Array()
  const reader = response.body.getReader()
  const stop = () => void reader.cancel().catch(() => {})
  signal?.addEventListener('abort', stop, { once: true })
  try {
    const chunks: Uint8Array[] = []
    let size = 0
    for (;;) {
      const { done, value } = await reader.read()
      signal?.throwIfAborted()
      if (done) return Buffer.concat(chunks)
      size += value.byteLength
      if (size > bytesMax) throw new Error(`response exceeds ${bytesMax} bytes`)
      chunks.push(value)
    }
  } catch (error) {
    stop()
    throw error
  } finally {
    signal?.removeEventListener('abort', stop)
  }
}
