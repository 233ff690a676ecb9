import { expect, test } from 'bun:test'
import { untilReady } from './ready.ts'

/** Serves the health of one process. Sends the `answers` of a path in order, and repeats the last one. */
function serve(asked: string[], answers: Record<string, { status?: number; body: string }[]>) {
  return Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch(request) {
      const { pathname } = new URL(request.url)
      asked.push(pathname)
      if (pathname === CHECK) expect(request.headers.get('authorization')).toBe('Bearer the secret')
      const remaining = answers[pathname] ?? []
      const answer = remaining.length > 1 ? remaining.shift() : remaining[0]
      return new Response(answer?.body, { status: answer?.status ?? 200 })
    },
  })
}

const CHECK = '/grpc.health.v1.Health/Check'

test('readiness of the API is checked only after the sidecars serve', async () => {
  const asked: string[] = []
  const sidecar = serve(asked, {
    [CHECK]: [{ body: '{"status":"NOT_SERVING"}' }, { body: '{"status":"SERVING"}' }],
  })
  const api = serve(asked, {
    '/health': [{ status: 503, body: '' }, { body: '{}' }],
    '/health/ready': [{ status: 503, body: '{"status":"degraded"}' }, { body: '{"status":"ok"}' }],
  })
  await untilReady(
    { localUrl: `http://127.0.0.1:${api.port}`, sidecarToken: 'the secret' },
    [sidecar.port ?? 0],
    () => {},
  )
  expect(asked).toEqual(['/health', '/health', CHECK, CHECK, '/health/ready', '/health/ready'])
  await Promise.all([api.stop(true), sidecar.stop(true)])
})
