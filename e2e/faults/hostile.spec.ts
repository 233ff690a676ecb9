// Code that attacks its runner, and engine processes that are killed: other runs do not notice either.
import { randomInt } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from '@playwright/test'
import { HOSTILE_PYTHON } from './hostile-python.ts'
import { startTree, type Tree, until } from './tree.ts'

/** Seconds of work for one thread, so that a kill meets it. */
const SLOW = `select range as a from range(100)
where (select max(hash(x.range, y.range)) from range(20000) x, range(6000) y) is not null`
const NORMAL_RUNS = 12
const RUNS_UNDER_KILLS = 28
const KILLS = 8
/** So many runs end between two kills: none is met four times, after which it would fail. */
const ENDS_BETWEEN = 3

interface Run {
  status: string
  phase: string | null
  error: string | null
  attempt: number
}

let tree: Tree
test.beforeAll(async () => {
  tree = await startTree({ RUNNER_CONCURRENCY: '4' })
})
test.afterAll(() => tree.stop())

test('Python that attacks the channel to its runner fails alone: no process is restarted, no other run is affected', async () => {
  const { python } = await (await fetch(`${tree.url}/health/ready`)).json()
  // biome-ignore lint/suspicious/noSkippedTests: there is nothing to attack without Python
  test.skip(python === null && !process.env.REQUIRE_PYTHON, 'pipelines in Python cannot run on this machine')
  const parts = ['api', 'runner', 'query', 'postgres']
  const before = await Promise.all(parts.map(tree.pidOf))
  await publish('normal', 'pipeline.sql', SLOW)
  const hostile = Object.entries(HOSTILE_PYTHON).map(([title, source], n) => ({
    title,
    name: `hostile_${n}`,
    source,
  }))
  for (const { name, source } of hostile) await publish(name, 'pipeline.py', source, 'python')
  const normal = await Promise.all(Array.from({ length: NORMAL_RUNS }, () => request('normal')))
  const attacks: { title: string; id: string }[] = []
  // Three rounds, so that attacks go on while normal runs execute.
  for (let round = 0; round < 3; round++)
    for (const { title, name } of hostile) attacks.push({ title, id: await request(name) })
  for (const { title, id } of attacks) {
    const { status, error, attempt } = await ended(id)
    expect({ title, status, attempt }).toEqual({ title, status: 'failed', attempt: 1 })
    expect(error, title).toMatch(/^executing: pipeline\.py/)
  }
  for (const id of normal)
    expect(await ended(id), tree.log()).toMatchObject({ status: 'success', error: null, attempt: 1 })
  expect(await Promise.all(parts.map(tree.pidOf))).toEqual(before)
})

test('engine processes that are killed at random fail no run', async () => {
  const names = Array.from({ length: 4 }, (_, n) => `killed_${n}`)
  for (const name of names) await publish(name, 'pipeline.sql', SLOW)
  const ids: string[] = []
  for (let n = 0; n < RUNS_UNDER_KILLS; n++) ids.push(await request(names[n % names.length] ?? ''))
  const runner = await tree.pidOf('runner')
  for (let kills = 0; kills < KILLS; kills++) {
    const engines = await until(
      async () => enginesOf(runner),
      (found) => found.length > 0,
    )
    process.kill(engines[randomInt(engines.length)] ?? 0, 'SIGKILL')
    await until(
      () => Promise.all(ids.map(run)),
      (all) => all.filter(isOver).length >= (kills + 1) * ENDS_BETWEEN,
    )
  }
  for (const id of ids) expect(await ended(id), tree.log()).toMatchObject({ status: 'success', error: null })
  expect(await tree.pidOf('runner')).toBe(runner)
})

test('runs that lose two runners together execute alone then, one after the other, and end in success', async () => {
  const names = ['suspect_one', 'suspect_two']
  // Enough work for a run to meet two kills.
  for (const name of names) await publish(name, 'pipeline.sql', SLOW.replace('6000', '20000'))
  const ids = await Promise.all(names.map(request))
  for (let attempt = 1; attempt <= 2; attempt++) {
    await until(
      () => Promise.all(ids.map(run)),
      (all) => all.every((one) => one.phase === 'executing' && one.attempt === attempt),
    )
    process.kill(await tree.pidOf('runner'), 'SIGKILL')
  }
  const executing: number[] = []
  await until(
    async () => {
      const all = await Promise.all(ids.map(run))
      executing.push(all.filter(({ phase, attempt }) => phase === 'executing' && attempt > 2).length)
      return all
    },
    (all) => all.every(isOver),
  )
  expect(Math.max(...executing)).toBe(1)
  for (const id of ids) {
    expect(await run(id), tree.log()).toMatchObject({ status: 'success', error: null })
    const { body } = await tree.call<{ logs: { message: string }[] }>('GET', `/runs/${id}/logs`)
    expect(body.logs.map(({ message }) => message)).toContain(
      'this attempt executes alone on its runner: earlier ones lost theirs',
    )
  }
})

test('a run that loses three runners while nothing else executes fails with that reason', async () => {
  await publish('lonely', 'pipeline.sql', SLOW.replace('6000', '20000'))
  const id = await request('lonely')
  for (let attempt = 1; attempt <= 3; attempt++) {
    await until(
      () => run(id),
      (one) => one.phase === 'executing' && one.attempt === attempt,
    )
    process.kill(await tree.pidOf('runner'), 'SIGKILL')
  }
  const { status, error } = await ended(id)
  expect([status, error], tree.log()).toEqual([
    'failed',
    expect.stringMatching(/^runner lost 3 times while this run executed alone on it: /),
  ])
})

/** Engine processes below the runner. */
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

async function publish(name: string, file: string, content: string, type = 'sql') {
  const path = `/pipelines/default/gold/${name}`
  const made = await tree.call('POST', '/pipelines', { namespace: 'default', layer: 'gold', name, type })
  expect(made.status).toBe(201)
  const written = await tree.call('PUT', `/files/default/pipelines/gold/${name}/${file}`, { content })
  expect(written.status).toBe(200)
  const published = await tree.call('POST', `${path}/publish`)
  expect(published, JSON.stringify(published.body)).toMatchObject({ status: 200 })
}

async function request(pipeline: string): Promise<string> {
  const asked = { namespace: 'default', layer: 'gold', pipeline }
  const { status, body } = await tree.call<{ run_id: string }>('POST', '/runs', asked)
  expect(status).toBe(202)
  return body.run_id
}

const run = async (id: string): Promise<Run> => (await tree.call<Run>('GET', `/runs/${id}`)).body
const isOver = ({ status }: Run) => status === 'success' || status === 'failed' || status === 'cancelled'
const ended = (id: string): Promise<Run> => until(() => run(id), isOver)
