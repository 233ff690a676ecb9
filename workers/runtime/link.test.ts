import { afterEach, expect, test } from 'bun:test'
import { connect } from 'node:net'
import { testLog } from '../../app/composition/test-app.ts'
import { makeMetrics } from '../../app/core/metrics.ts'
import type { DryRunResult } from '../../app/core/removals.ts'
import type { ObjectStore } from '../../app/objects/port.ts'
import { freePort } from '../../sidecars/supervisor/ports.ts'
import { until } from '../../tools/kit/until.ts'
import { joinWorkers, type LinkSettings, serveLink, type WorkersLink } from './link.ts'

const ends: (() => unknown)[] = []
afterEach(async () => {
  for (const end of ends.splice(0)) await end()
})

/** The part of the store that these tests use. */
const objects = {
  list: async (prefix: string) => ({
    objects: [{ key: `${prefix}a`, versionId: 'v', modified: new Date(4_711), size: 3 }],
    truncated: false,
  }),
  get: async () => ({ body: new Blob([new Uint8Array([0, 255])]).stream() }),
} as unknown as ObjectStore

const NOTHING: DryRunResult = { would_remove: [], incomplete: ['runs'] }

async function workers(link: LinkSettings, reap = async () => {}) {
  const nudges: string[] = []
  const errors: unknown[] = []
  const served: WorkersLink = await serveLink(
    link,
    {
      nudge: (about) => nudges.push(about),
      reap,
      dryRun: async () => NOTHING,
      restart: () => nudges.push('restart'),
    },
    (error) => errors.push(error),
  )
  ends.push(served.close)
  return { served, nudges, errors }
}

function api(link: LinkSettings) {
  const metrics = makeMetrics()
  const joined = joinWorkers({ config: { reaper: true }, objects, log: testLog, metrics, link })
  joined.start()
  ends.push(joined.stop)
  return { joined, metrics }
}

const settings = async () => ({ port: await freePort(), token: 'secret' })

test('a requested tick runs in the worker process and reports its outcome', async () => {
  const link = await settings()
  let outcome = async () => {}
  await workers(link, () => outcome())
  const { joined } = api(link)
  await until(
    async () =>
      await joined.reaper?.run().then(
        () => true,
        () => false,
      ),
  )
  expect(await joined.reaper?.dryRun()).toEqual(NOTHING)
  outcome = async () => {
    throw new Error('no tick today')
  }
  await expect(joined.reaper?.run()).rejects.toThrow('no tick today')
})

test('worker counts reach the metrics, also counts before the API connected', async () => {
  const link = await settings()
  const { served } = await workers(link)
  served.count({ what: 'runsEnded', status: 'success', count: 2 })
  const { metrics } = api(link)
  await until(async () => (await metrics.text()).includes('sluice_runs_total{status="success"} 2'))
  served.count({ what: 'ticked', runsRequested: 3 })
  await until(async () => (await metrics.text()).includes('sluice_scheduler_runs_triggered_total 3'))
})

test('object calls through the API process preserve dates and bytes', async () => {
  const link = await settings()
  const { served } = await workers(link)
  api(link)
  expect(await served.answerObjectCall({ op: 'list', prefix: 'x/', limit: 1 })).toEqual({
    op: 'list',
    page: { objects: [{ key: 'x/a', versionId: 'v', modified: new Date(4_711), size: 3 }], truncated: false },
  })
  expect(await served.answerObjectCall({ op: 'read', key: 'a' })).toEqual({
    op: 'read',
    bytes: new Uint8Array([0, 255]),
  })
})

test('closes connections without the token and keeps the valid one', async () => {
  const link = await settings()
  const { nudges, errors } = await workers(link)
  const { joined } = api(link)
  const stranger = api({ ...link, token: 'guessed' })
  await until(async () => errors.length > 0)
  stranger.joined.nudge('outbox')
  const noise = connect(link.port, '127.0.0.1')
  const closed = new Promise<void>((resolve) => noise.on('close', () => resolve()))
  noise.on('error', () => {})
  noise.write(Buffer.alloc(8, 255))
  await closed
  await until(async () => {
    joined.nudge('runRequested')
    return nudges.length > 0
  })
  expect(new Set(nudges)).toEqual(new Set(['runRequested']))
})
