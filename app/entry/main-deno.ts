// Entry of the API process on Deno. Background work runs in the Bun process at workers/main.ts.
import process from 'node:process'
import { startEffects } from '../../workers/dispatcher/effects.ts'
import { joinWorkers, linkFrom } from '../../workers/runtime/link.ts'
import type { Peer } from '../wire/client-address.ts'
import { namesOneHost } from '../wire/own-host.ts'
import { asSent } from './file-addresses.ts'
import { runProcess } from './process.ts'

/** The parts of Deno that this file uses. */
declare const Deno: {
  serve(
    options: { hostname: string; port: number; onListen(): void; automaticCompression?: boolean },
    fetch: (request: Request, info: { remoteAddr: { hostname?: string } }) => Response | Promise<Response>,
  ): { shutdown(): Promise<void>; finished: Promise<void> }
}

/**
 * Elysia sets an empty text as the body of 204 and 304 responses. The standard refuses that body; other runtimes ignore it.
 * `instanceof` must also accept responses of `Response.json` and `fetch`, which this constructor did not create.
 */
const Standard = globalThis.Response
globalThis.Response = class Response extends Standard {
  constructor(body?: BodyInit | null, init?: ResponseInit) {
    super(init?.status === 204 || init?.status === 304 ? null : body, init)
  }

  static override [Symbol.hasInstance](value: unknown) {
    return value instanceof Standard
  }
}

/** Deno builds the address from Host and target without a check, and accepts headers of any length. */
const HOST = /^[^\s/?#\\@]*$/
const HEADER_BYTES_MAX = 16_384

const refusal = (status: number, code: string, message: string) =>
  Response.json({ error: { code, type: 'VALIDATION', message } }, { status })

/** Refuses requests that servers of other runtimes refuse before they reach the application. */
function refused({ headers, url }: Request): Response | null {
  const host = headers.get('host') ?? ''
  if (!HOST.test(host) || !namesOneHost(url, host))
    return refusal(400, 'INVALID_ARGUMENT', 'Host: must be a host, with or without a port')
  let bytes = 0
  for (const [name, value] of headers) bytes += name.length + value.length + LINE_BYTES
  return bytes > HEADER_BYTES_MAX
    ? refusal(431, 'INVALID_ARGUMENT', `headers: must have at most ${HEADER_BYTES_MAX} bytes together`)
    : null
}

/**
 * Deno sends Content-Length 0 for a response without a body. The length for HEAD must be that of GET, so this response gets an
 * empty stream of unknown length.
 */
const ofUnknownLength = (response: Response) =>
  response.body === null && !response.headers.has('content-length')
    ? new Response(new ReadableStream({ start: (controller) => controller.close() }), response)
    : response

/** Bytes of a header line beside name and value: a colon, a space, CR and LF. */
const LINE_BYTES = 4

await runProcess({
  env: process.env,
  startEffects,
  makeBackground: (parts) => joinWorkers({ ...parts, link: linkFrom(process.env) }),
  serve(app, { host, port }) {
    return new Promise((resolve) => {
      const server = Deno.serve(
        {
          hostname: host,
          port,
          onListen: () => resolve({ drain: () => server.shutdown(), close: async () => {} }),
        },
        async (request, { remoteAddr }) => {
          const peer: Peer = {
            address: remoteAddr.hostname ?? null,
            get isGone() {
              return request.signal.aborted
            },
          }
          const response = refused(request) ?? (await app.fetch(asSent(request), peer))
          return request.method === 'HEAD' ? ofUnknownLength(response) : response
        },
      )
    })
  },
})
