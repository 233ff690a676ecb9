// The cost of attempts, as the kernel counts it.
import { expect, test } from 'bun:test'
import { type Cost, RunStatus } from '../../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { engineAtWork } from '../../core/testing.ts'
import { useRunner } from '../test-runner.ts'
import { runToEnd, startRunner } from '../testing.ts'

const { service, runner, aTable, publish } = await useRunner({ RUNNER_CONCURRENCY: '1' })

const MB = 1_000_000
/** Numbers that Parquet cannot compress: 8 bytes each. */
const numbers = (count: number) => `select range as id, hash(range) as h from range(${count})`

const megabytes = ({ cost }: { cost?: Cost }) => ({
  read: Number(cost?.bytesRead) / MB,
  written: Number(cost?.bytesWritten) / MB,
  peak: Number(cost?.peakMemoryBytes) / MB,
})

test('an attempt reports what its engine has read, written and used', async () => {
  const [source, sum] = [aTable(), aTable()]
  const written = await publish(source, numbers(2_000_000))
  expect(megabytes(written.facts).written).toBeGreaterThan(16)
  expect(written.facts.cost?.cpuSeconds).toBeGreaterThan(0.05)
  const read = await publish(sum, `select sum(h % 7) as s from {{ ref('${source.layer}.${source.name}') }}`)
  expect(megabytes(read.facts).read).toBeGreaterThan(15)
  // The attempt does not pay for the earlier one, which has used the same process.
  expect(megabytes(read.facts).written).toBeLessThan(1)
  expect(megabytes(read.facts).peak).toBeGreaterThan(50)
  expect(read.lines.filter((line) => line.startsWith('cost: '))).toEqual([
    expect.stringMatching(
      /^cost: \d+\.\d\d CPU s, [\d.]+ MB read, [\d.]+ k?B written, [\d.]+ MB peak memory$/,
    ),
  ])
})

test('a failed attempt reports its cost', async () => {
  const sql = `select error('end ' || sum(h % 7)) as a from (${numbers(5_000_000)})`
  const submit = await service.attempt(aTable(), { 'pipeline.sql': sql })
  const { facts } = await runToEnd(runner.client, submit)
  expect(facts.status).toBe(RunStatus.FAILED)
  expect(facts.cost?.cpuSeconds).toBeGreaterThan(0.05)
})

test('an attempt whose engine is killed reports its cost up to then', async () => {
  const sql = 'select sum(a.range * b.range) as n from range(1000000) a, range(1000000) b'
  const submit = await service.attempt(aTable(), { 'pipeline.sql': sql })
  const ended = runToEnd(runner.client, submit)
  process.kill(await engineAtWork(runner.engines, 100), 'SIGKILL')
  const { facts } = await ended
  expect(facts.isEngineLost).toBe(true)
  expect(facts.cost?.cpuSeconds).toBeGreaterThan(0.3)
})

test('a runner that may not look into its engines reports costs, too', async () => {
  // As root in a container; other users have no such right anyway.
  const without = ['setpriv', '--bounding-set', '-sys_ptrace', '--inh-caps', '-sys_ptrace']
  const ownRunner = await startRunner({}, process.getuid?.() === 0 ? without : [])
  const large = await publish(aTable(), numbers(2_000_000), {}, ownRunner)
  expect(megabytes(large.facts).written).toBeGreaterThan(16)
  const small = await publish(aTable(), 'select 1 as a', {}, ownRunner)
  expect(megabytes(small.facts).written).toBeLessThan(1)
  expect(megabytes(small.facts).peak).toBeGreaterThan(50)
  await ownRunner.stop()
})
