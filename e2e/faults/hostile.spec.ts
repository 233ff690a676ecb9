// Code that attacks its runner, and killed engine processes, do not affect other runs.
import { randomInt } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from '@playwright/test'
import { HOSTILE_PYTHON } from './hostile-python.ts'
import { isOver, startTree, type Tree, until } from './tree.ts'

/** Seconds of work for one thread, so that a kill happens during execution. */
const SLOW = `select range as a from range(100)
where (select max(hash(x.range, y.range)) from range(20000) x, range(6000) y) is not null`
const NORMAL_RUNS = 12
const ATTACKS = 6
const RUNS_UNDER_KILLS = 28
const KILLS = 8
/** This many runs end between two kills. */
const ENDS_BETWEEN = 3
/** Nothing is killed while a run executes in its last attempt: the loss of a fourth engine fails a run. */
const LAST_ATTEMPT = 4

let tree: Tree
test.beforeAll(async () => {
  tree = await startTree({ RUNNER_CONCURRENCY: '4' })
})
test.afterAll(() => tree.stop())

test('Python that attacks the runner channel affects no other run or process', async () => {
  // Without Python there is nothing to attack, so this suite needs it.
  await until(
    async () => (await (await fetch(`${tree.url}/health/ready`)).json()).python,
    (python) => python !== null,
  )
  const parts = ['api', 'runner', 'query', 'postgres']
  const before = await Promise.all(parts.map(tree.pidOf))
  await tree.publish('normal', SLOW)
  await tree.publish('hostile', HOSTILE_PYTHON, 'python')
  const normal = await Promise.all(Array.from({ length: NORMAL_RUNS }, () => tree.requestRun('normal')))
  // Several attacks, so that they continue while normal runs execute.
  const attacks = await Promise.all(Array.from({ length: ATTACKS }, () => tree.requestRun('hostile')))
  for (const id of attacks) {
    const { status, error, attempt } = await tree.ended(id)
    expect({ status, attempt, error }).toEqual({
      status: 'failed',
      attempt: 1,
      error: expect.stringMatching(/^executing: pipeline\.py/),
    })
  }
  for (const id of normal)
    expect(await tree.ended(id), tree.log()).toMatchObject({ status: 'success', error: null, attempt: 1 })
  expect(await Promise.all(parts.map(tree.pidOf))).toEqual(before)
})

test('randomly killed engine processes fail no run', async () => {
  const names = Array.from({ length: 4 }, (_, n) => `killed_${n}`)
  for (const name of names) await tree.publish(name, SLOW)
  const ids: string[] = []
  for (let n = 0; n < RUNS_UNDER_KILLS; n++) ids.push(await tree.requestRun(names[n % names.length] ?? ''))
  const runner = await tree.pidOf('runner')
  for (let kills = 0; kills < KILLS; kills++) {
    const engines = await until(
      async () => enginesOf(runner),
      (found) => found.length > 0,
    )
    process.kill(engines[randomInt(engines.length)] ?? 0, 'SIGKILL')
    await until(
      () => Promise.all(ids.map(tree.run)),
      (all) =>
        all.filter(isOver).length >= (kills + 1) * ENDS_BETWEEN &&
        all.every((one) => isOver(one) || one.attempt < LAST_ATTEMPT),
    )
  }
  for (const id of ids)
    expect(await tree.ended(id), tree.log()).toMatchObject({ status: 'success', error: null })
  expect(await tree.pidOf('runner')).toBe(runner)
})

test('runs that lose two runners together then execute alone and succeed', async () => {
  const names = ['suspect_one', 'suspect_two']
  // Enough work for a run to be killed twice.
  for (const name of names) await tree.publish(name, SLOW.replace('6000', '20000'))
  const ids = await Promise.all(names.map(tree.requestRun))
  for (let attempt = 1; attempt <= 2; attempt++) {
    await until(
      () => Promise.all(ids.map(tree.run)),
      (all) => all.every((one) => one.phase === 'executing' && one.attempt === attempt),
    )
    process.kill(await tree.pidOf('runner'), 'SIGKILL')
  }
  const executing: number[] = []
  await until(
    async () => {
      const all = await Promise.all(ids.map(tree.run))
      executing.push(all.filter(({ phase, attempt }) => phase === 'executing' && attempt > 2).length)
      return all
    },
    (all) => all.every(isOver),
  )
  expect(Math.max(...executing)).toBe(1)
  for (const id of ids) {
    expect(await tree.run(id), tree.log()).toMatchObject({ status: 'success', error: null })
    const { body } = await tree.call<{ logs: { message: string }[] }>('GET', `/runs/${id}/logs`)
    expect(body.logs.map(({ message }) => message)).toContain(
      'this attempt executes alone on its runner: earlier attempts lost their runners',
    )
  }
})

test('a run that loses three runners while alone fails with that reason', async () => {
  await tree.publish('lonely', SLOW.replace('6000', '20000'))
  const id = await tree.requestRun('lonely')
  for (let attempt = 1; attempt <= 3; attempt++) {
    await until(
      () => tree.run(id),
      (one) => one.phase === 'executing' && one.attempt === attempt,
    )
    process.kill(await tree.pidOf('runner'), 'SIGKILL')
  }
  const { status, error } = await tree.ended(id)
  expect([status, error], tree.log()).toEqual([
    'failed',
    expect.stringMatching(/^runner lost 3 times while this run executed alone on it: /),
  ])
})

/** Pids of the engine processes that the runner started. */
function enginesOf(runner: number): number[] {
  return readdirSync('/proc').flatMap((entry) => {
    const pid = Number(entry)
    if (!Number.isInteger(pid)) return []
    try {
      const status = readFileSync(`/proc/${pid}/status`, 'utf8')
      const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8')
      return status.includes(`\nPPid:\t${runner}\n`) && command.includes('engine.main.ts') ? [pid] : []
    } catch {
      return []
    }
  })
}
