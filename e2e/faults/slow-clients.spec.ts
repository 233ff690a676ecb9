// Attack class: resource exhaustion by clients that send a little now and then. The test lasts as long as the service's
// timeouts.
import { connect } from 'node:net'
import { expect } from '@playwright/test'
import { test } from '../kit/own-service.ts'

test.use({ serviceEnv: { RUNNER_URLS: 'none', QUERY_URLS: 'none' } })

/** Resolves when the service closes the connection. */
function closed(url: string, first: string, drip: string): Promise<void> {
  const { hostname, port } = new URL(url)
  return new Promise((resolve) => {
    const socket = connect(Number(port), hostname, () => socket.write(first))
    const timer = setInterval(() => socket.write(drip), 2_000)
    socket.on('data', () => {})
    socket.on('error', () => {})
    socket.on('close', () => {
      clearInterval(timer)
      resolve()
    })
  })
}

test('slow and silent connections are closed soon while others are answered', async ({
  request,
  service,
}) => {
  const slow = Promise.all([
    ...Array.from({ length: 50 }, () =>
      closed(service.url, 'GET /api/v1/namespaces HTTP/1.1\r\nHost: a\r\n', 'x-a: 1\r\n'),
    ),
    ...Array.from({ length: 50 }, () => closed(service.url, '', '')),
  ])
  expect((await request.get('/api/v1/namespaces')).status()).toBe(200)
  await slow
})
