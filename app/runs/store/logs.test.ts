import { expect, test } from 'bun:test'
import type { RunId } from '../../core/ids.ts'
import { accepted, failed, useRuns } from '../test-runs.ts'
import { type LogLine, seqAfter, seqOfRunner } from './logs.ts'
import { applyOutcomes } from './outcomes.ts'

const { opened, pipelineNamed, start, tell } = useRuns()

async function started(name: string) {
  const { request, runs } = await pipelineNamed(name)
  const id = await request()
  await start()
  await tell(accepted(id))
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

test('the log of a cancelled run accepts no later attempt lines', async () => {
  const { id, runs } = await started('cancelled')
  await applyOutcomes(opened.sql, [], [lineOf(id, 1, 'before')])
  await runs.cancel(id)
  const ended = await messagesOf(id)
  expect(ended).toEqual(['before', expect.stringMatching(/^cancelled/)])
  const dropped = { ...lineOf(id, 0, '3 log lines dropped'), seq: seqAfter(1, 0) }
  await applyOutcomes(opened.sql, [], [lineOf(id, 2, 'after'), lineOf(id, 3, 'cancelled'), dropped])
  await applyOutcomes(opened.sql, [failed(id, 'late')], [lineOf(id, 4, 'after, with an outcome')])
  expect(await messagesOf(id)).toEqual(ended)
  const times = await opened.sql`select at from run_log where run_id = ${id} order by seq`
  expect(times.map(({ at }) => at)).toEqual(times.map(({ at }) => at).sort((a, b) => a - b))
})

test("lines that arrive with a run's end precede its last line", async () => {
  const { id } = await started('failed')
  const outcome = failed(id, 'executing: it failed')
  await applyOutcomes(opened.sql, [outcome], [lineOf(id, 1, 'one'), lineOf(id, 2, 'two')])
  expect(await messagesOf(id)).toEqual(['one', 'two', 'executing: it failed'])
})
