import { describe, expect, test } from 'bun:test'
import { newRun, RUN_MACHINE_VERSION } from '../../machines/run.ts'
import { newId } from '../core/ids.ts'
import { inspectorUnderTest, TO_EXECUTING, TO_SUCCESS } from './test-inspector.ts'

const { under, get, instance, pipeline, run, move, step, trigger } = inspectorUnderTest()

describe('an instance', () => {
  test('has its state, its context and its history with durations', async () => {
    const id = await run()
    await move(id, { type: 'start' })
    await move(id, ...TO_SUCCESS.slice(1))
    await under.sql`
      update transition t set at = r.created_at + o.n * interval '250 ms'
      from (select id, row_number() over (order by id) - 1 as n from transition) o, run r
      where t.id = o.id and r.id = t.entity_id`
    const found = await instance('run', id)
    expect(found).toMatchObject({
      state: 'success',
      live: false,
      snapshot: {
        value: 'success',
        context: { ...newRun().context, attempt: 1 },
        status: 'done',
      },
      machine_version: RUN_MACHINE_VERSION,
      is_newer: false,
      waits_for: [],
      facts: { trigger: 'manual', error: null },
    })
    expect(found.history).toMatchObject({ total: 6, is_whole: true })
    const steps = found.history.steps.map(({ step, event, to, transition, duration_ms }) => [
      step,
      event,
      to,
      transition,
      duration_ms,
    ])
    expect(steps).toEqual([
      [1, 'requested', 'pending.waiting', 'created', 250],
      [2, 'start', 'pending.starting', 'pending.waiting:start:0', 250],
      [3, 'accepted', 'running.rendering', 'pending.starting:accepted:0', 250],
      [4, 'entered', 'running.executing', 'running.rendering:entered:0', 250],
      [5, 'executed', 'running.merging', 'running.executing:executed:3', 250],
      [6, 'merged', 'success', 'running.merging:merged:0', null],
    ])
    expect(found.history.steps[1]).toMatchObject({ effects: ['openAttempt', 'submitAttempt'], cause: 'test' })
  })

  test('returns its history in pages, the newest page first', async () => {
    const id = await run(...TO_SUCCESS)
    const newest = await instance('run', id, '?limit=2')
    expect(newest.history.steps.map(({ step }) => step)).toEqual([5, 6])
    const before = newest.history.steps[0]?.id
    const earlier = await instance('run', id, `?limit=3&before=${before}`)
    expect(earlier.history.steps.map(({ step }) => step)).toEqual([2, 3, 4])
    expect(earlier.history.steps.at(-1)?.duration_ms).toBe(0)
    expect((await instance('run', id, `?before=${before}`)).history.steps.map(({ step }) => step)).toEqual([
      1, 2, 3, 4,
    ])
  })

  test('has, for a draft, a history that begins with its creation', async () => {
    const { id } = await pipeline('p')
    expect((await instance('draft', id)).history).toMatchObject({
      total: 1,
      is_whole: true,
      steps: [
        { id: 0, step: 1, event: 'created', to: 'unpublished', transition: 'created', duration_ms: null },
      ],
    })
    await step('draft', id, 'published', 'unpublished', 'clean')
    expect((await instance('draft', id)).history.steps).toMatchObject([
      { id: 0, step: 1, event: 'created', to: 'unpublished' },
      { step: 2, event: 'published', to: 'clean', transition: 'unpublished:published:0' },
    ])
  })

  test('reports that older history was removed', async () => {
    const { id, request } = await pipeline('p')
    const run = await request()
    await move(run, ...TO_EXECUTING)
    await under.sql`delete from transition where event = 'requested'`
    expect((await instance('run', run)).history).toMatchObject({ total: 3, is_whole: false })
    await under.sql`delete from transition`
    expect((await instance('run', run)).history).toEqual({ steps: [], total: 0, is_whole: false })
    await step('draft', id, 'fileWritten', 'clean', 'dirty')
    expect((await instance('draft', id)).history).toMatchObject({ total: 1, is_whole: false })
  })

  test('is 404 with a hint at retention if it does not exist', async () => {
    for (const path of [
      `run/instances/${newId()}`,
      `draft/instances/${newId()}`,
      `trigger/instances/${newId()}/events`,
    ]) {
      const response = await get(path)
      expect([response.status, await response.text()]).toEqual([404, expect.stringContaining('retention')])
    }
    expect((await get('run/instances/x')).status).toBe(404)
  })

  test('is shown as stored if a newer program wrote it', async () => {
    const id = await run()
    await under.sql`update run set machine_version = 99 where id = ${id}`
    expect(await instance('run', id)).toMatchObject({
      is_newer: true,
      machine_version: 99,
      state: 'pending.waiting',
      waits_for: [{ code: 'newer_program' }],
    })
  })

  test('does not contain the token of a webhook', async () => {
    const { id } = await pipeline('p')
    const hook = await trigger(id, { token_hash: 'f'.repeat(64) })
    expect(JSON.stringify(await instance('trigger', hook))).not.toContain('ffff')
  })
})

describe('an export', () => {
  test('contains the statechart, the instance and its history', async () => {
    const id = await run(...TO_SUCCESS)
    const response = await get(`run/instances/${id}/export.json`)
    expect(response.headers.get('content-disposition')).toBe(`attachment; filename="run-${id}.json"`)
    expect(await response.json()).toMatchObject({
      definition: { machine: 'run' },
      instance: { id, state: 'success' },
      history: { total: 6 },
    })
  })

  test('highlights the state after a chosen step', async () => {
    const id = await run(...TO_SUCCESS)
    const activeIn = async (query: string) =>
      [
        ...(await (await get(`run/instances/${id}/export.svg${query}`)).text()).matchAll(
          /class="(?:state \w+|compound) active" data-state="([^"]+)"/g,
        ),
      ].map(([, path]) => path)
    expect(await activeIn('')).toEqual(['success'])
    const { steps } = (await instance('run', id)).history
    expect(await activeIn(`?step=${steps[3]?.id}`)).toEqual(['running', 'running.executing'])
    expect((await get(`run/instances/${id}/export.svg?step=999999999`)).status).toBe(404)
  })
})
