// Attack class: resource exhaustion, by clients that send a little now and then. It takes the time that they are given.
import { connect } from 'node:net'
import { expect, test } from '@playwright/test'
import { type OwnService, startOwnService } from '../own-service.ts'

let service: OwnService
test.beforeAll(async () => {
  service = await startOwnService({ RUNNER_URLS: 'none', QUERY_URLS: 'none' })
})
test.afterAll(() => service?.stop())

/** Until the connection is closed by the other side. */
function closed(first: string, drip: string): Promise<void> {
  const { hostname, port } = new URL(service.url)
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

test('headers that trickle, and connections that say nothing, are closed soon; others are answered meanwhile', async ({
  request,
}) => {
  const slow = Promise.all([
    ...Array.from({ length: 50 }, () =>
      closed('GET /api/v1/namespaces HTTP/1.1\r\nHost: a\r\n', 'x-a: 1\r\n'),
    ),
    ...Array.from({ length: 50 }, () => closed('', '')),
  ])
  expect((await request.get(`${service.url}/api/v1/namespaces`)).status()).toBe(200)
  await slow
})
