// Entry of the API process on Deno: the work beside requests is done by the Bun process at workers/main.ts.
import process from 'node:process'
import { startEffects } from '../workers/effects.ts'
import { joinWorkers, linkFrom } from '../workers/link.ts'
import { runProcess } from './process.ts'

/** What is used of Deno here. */
declare const Deno: {
  serve(
    options: { hostname: string; port: number; onListen(): void; automaticCompression?: boolean },
    fetch: (request: Request, info: { remoteAddr: { hostname?: string } }) => Promise<Response>,
  ): { shutdown(): Promise<void>; finished: Promise<void> }
}

/** Elysia gives an answer that may have no body an empty text, which the standard refuses and others pass over. */
const Standard = globalThis.Response
globalThis.Response = class Response extends Standard {
  constructor(body?: BodyInit | null, init?: ResponseInit) {
    super(init?.status === 204 || init?.status === 304 ? null : body, init)
  }
}

await runProcess({
  env: process.env,
  startEffects,
  startBackground: (parts) => joinWorkers({ ...parts, link: linkFrom(process.env) }),
  serve(app, { host, port }) {
    return new Promise((resolve) => {
      const server = Deno.serve(
        {
          hostname: host,
          port,
          onListen: () => resolve({ drain: () => server.shutdown(), close: async () => {} }),
        },
        (request, { remoteAddr }) => app.fetch(request, { address: remoteAddr.hostname ?? null }),
      )
    })
  },
})
