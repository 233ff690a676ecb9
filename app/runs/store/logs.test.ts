import { expect, setDefaultTimeout, test } from 'bun:test'
import { useDatabase } from '../../../tools/test/database.ts'
import { addPipeline } from '../../../workers/testing.ts'
import type { RunId } from '../../core/ids.ts'
import { type LogLine, seqAfter, seqOfRunner } from './logs.ts'
import { applyOutcomes } from './outcomes.ts'
import { startWaiting } from './start.ts'

setDefaultTimeout(60_000)

const opened = useDatabase({ rawConnections: 4 })

async function started(name: string) {
  const { request, runs } = await addPipeline(opened.sql, name, { landingZones: [], nudge: () => {} })
  const id = await request()
  await startWaiting(opened.sql, ['http://127.0.0.1:1'], 'tester')
  await applyOutcomes(opened.sql, [{ runId: id, attempt: 1, kind: 'accepted', runnerBoot: 'boot' }], [])
  return { id, runs }
}
const lineOf = (runId: RunId, line: number, message: string): LogLine => ({
  runId,
  seq: seqOfRunner(1, line),
  at: new Date(),
  level: 'info',
  message,
})
const messagesOf = async (id: RunId) =>
  (
    await opened.sql`select message from run_log where run_id = ${id} and seq > ${seqOfRunner(1, 0)} order by seq`
  ).map(({ message }) => message)

test('the log of a cancelled run ends with its end, whatever its attempt still tells', async () => {
  const { id, runs } = await started('cancelled')
  await applyOutcomes(opened.sql, [], [lineOf(id, 1, 'before')])
  await runs.cancel(id)
  const ended = await messagesOf(id)
  expect(ended).toEqual(['before', expect.stringMatching(/^cancelled/)])
  const dropped = { ...lineOf(id, 0, '3 lines were dropped'), seq: seqAfter(1, 0) }
  await applyOutcomes(opened.sql, [], [lineOf(id, 2, 'after'), lineOf(id, 3, 'cancelled'), dropped])
  const late = { runId: id, attempt: 1, kind: 'failed', error: 'late' } as const
  await applyOutcomes(opened.sql, [late], [lineOf(id, 4, 'after, with an outcome')])
  expect(await messagesOf(id)).toEqual(ended)
  const times = await opened.sql`select at from run_log where run_id = ${id} order by seq`
  expect(times.map(({ at }) => at)).toEqual(times.map(({ at }) => at).sort((a, b) => a - b))
})

test('lines that come together with the end of a run are before its last line', async () => {
  const { id } = await started('failed')
  const outcome = { runId: id, attempt: 1, kind: 'failed', error: 'executing: it failed' } as const
  await applyOutcomes(opened.sql, [outcome], [lineOf(id, 1, 'one'), lineOf(id, 2, 'two')])
  expect(await messagesOf(id)).toEqual(['one', 'two', 'executing: it failed'])
})
