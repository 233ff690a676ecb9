import { describe, expect, test } from 'bun:test'
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { until } from '../../tools/kit/until.ts'
import { makeEnforcement, makeResources } from '../access/service.ts'
import { requestTo, testApp } from '../composition/test-app.ts'
import { systemClock } from '../core/clock.ts'
import { newId } from '../core/ids.ts'
import { openDiskStore } from '../objects/disk.ts'
import { makeStreamSlots } from '../wire/stream-slots.ts'
import { makeInspectorFeeds } from './feed.ts'
import { inspectorRoutes } from './routes.ts'
import { makeInspectorService } from './service.ts'
import { inspectorUnderTest, TO_EXECUTING, TO_SUCCESS } from './test-inspector.ts'

const { under, get, pipeline, run, move, step, trigger } = inspectorUnderTest()

/** Reads events of a stream until `wanted` events have come; `more` reads on, by default to the end. */
async function events({ headers, body }: Response, wanted: number) {
  expect(headers.get('content-type')).toStartWith('text/event-stream')
  assert(body)
  const reader = body.pipeThrough(new TextDecoderStream()).getReader()
  let text = ''
  const found = () =>
    [...text.matchAll(/(?:id: (\d+)\n)?event: (\w+)\ndata: (.*)\n\n/g)].map(([, id, name, data = '']) => ({
      id: id === undefined ? null : Number(id),
      name,
      data: JSON.parse(data),
    }))
  async function more(count = Number.POSITIVE_INFINITY) {
    while (found().length < count) {
      const { done, value } = await reader.read()
      if (done) break
      text += value
    }
    return found()
  }
  return { found: await more(wanted), more, cancel: () => reader.cancel() }
}

describe('a stream', () => {
  test('sends each step of a run, and ends with the run', async () => {
    const id = await run()
    const stream = await events(await get(`run/instances/${id}/events`), 2)
    expect(stream.found).toMatchObject([
      { name: 'transition', data: { event: 'requested', step: 1 } },
      { name: 'snapshot', data: { state: 'pending.waiting', live: true } },
    ])
    await move(id, ...TO_EXECUTING)
    under.feeds.wakeRun(id)
    await move(id, { type: 'cancelRequested' })
    under.feeds.wakeRun(id)
    const all = await stream.more()
    const steps = all.filter(({ name }) => name === 'transition')
    expect(steps.map(({ data }) => data.event)).toEqual([
      'requested',
      'start',
      'accepted',
      'entered',
      'cancelRequested',
    ])
    expect(steps.every(({ id: eventId, data }) => eventId === data.id)).toBe(true)
    expect(all.at(-1)).toMatchObject({ name: 'snapshot', data: { state: 'cancelled', live: false } })
  })

  test('sends the whole history of an ended run, then ends', async () => {
    const id = await run(...TO_SUCCESS)
    const { found, more } = await events(await get(`run/instances/${id.toUpperCase()}/events`), 7)
    expect(await more()).toHaveLength(7)
    expect(found.map(({ name }) => name)).toEqual([...Array(6).fill('transition'), 'snapshot'])
    const after = found[4]?.id
    const resumed = await events(
      await get(`run/instances/${id}/events`, { 'last-event-id': String(after) }),
      2,
    )
    expect(resumed.found.map(({ name, data }) => [name, data.step ?? data.state])).toEqual([
      ['transition', 6],
      ['snapshot', 'success'],
    ])
  })

  test('finds the moves of a draft without a notice', async () => {
    const { id } = await pipeline('p')
    const stream = await events(await get(`draft/instances/${id}/events`), 1)
    await step('draft', id, 'published', 'unpublished', 'clean')
    await under.sql`update pipeline set draft_snapshot = '{"value": "deleted", "context": {}, "status": "done"}'`
    expect((await stream.more()).slice(1)).toMatchObject([
      { name: 'transition', data: { event: 'published', step: 2 } },
      { name: 'snapshot', data: { state: 'deleted', live: false } },
    ])
  })

  test('reports that its instance was removed, and ends', async () => {
    const id = await run()
    const stream = await events(await get(`run/instances/${id}/events`), 2)
    await under.sql`delete from run`
    under.feeds.wakeRun(id)
    expect((await stream.more()).at(-1)).toMatchObject({ name: 'gone' })
  })

  test('reports changes of a list, with or without a notice', async () => {
    const { request } = await pipeline('p')
    const [runs, drafts] = [await get('run/events'), await get('draft/events')]
    const changed = events(runs, 1)
    under.feeds.wakeRun(await request())
    expect((await changed).found).toEqual([{ id: null, name: 'changed', data: { machine: 'run' } }])
    await (await changed).cancel()
    const { id } = await pipeline('other')
    const draftEvents = events(drafts, 1)
    const write = setInterval(
      () =>
        void under.sql`
          insert into transition (machine, entity_id, at, event, "from", "to", effects, cause)
          values ('draft', ${id}, now(), 'fileWritten', 'unpublished', 'unpublished', '[]', 'files')`.execute(),
      300,
    )
    try {
      expect((await draftEvents).found).toMatchObject([{ data: { machine: 'draft' } }])
    } finally {
      clearInterval(write)
      await (await draftEvents).cancel()
    }
  })
})

test("a stream ends when its reader's grant is revoked, not for others", async () => {
  const { sql } = under
  const root = await mkdtemp(join(tmpdir(), 'sluice-inspector-'))
  const objects = await openDiskStore(root, systemClock)
  const inspector = makeInspectorService({ sql, clock: systemClock, runner: null })
  const places = makeStreamSlots({ streamsPerProcess: 10, streamsPerClient: 10 })
  const often = makeInspectorFeeds(inspector, places, { heartbeatMs: 10 })
  const verify = (userId: string) => ({ kind: 'user' as const, userId, name: userId, roles: [] })
  const pro = testApp({
    config: { edition: 'pro', apiKey: 'a-key' },
    plugins: { auth: { tokens: { verify }, authorize: () => true }, describe: async () => ({}) },
    ownership: { resources: makeResources({ sql, objects }), enforcement: makeEnforcement({ sql }) },
    api: [inspectorRoutes(inspector, often)],
  })
  try {
    const { id: pipelineId } = await pipeline('lent')
    await sql`update pipeline set owner = 'ann' where id = ${pipelineId}`
    await sql`
      insert into access_grant (id, grantor_id, grantee_id, resource_type, resource_id, permission)
      values (${newId()}, 'ann', 'bob', 'pipeline', ${pipelineId}, 'read')`
    const path = `/api/v1/inspector/trigger/instances/${await trigger(pipelineId, {})}/events`
    const follow = async (user: string) => {
      const response = await requestTo(pro, 'GET', path, undefined, { authorization: `Bearer ${user}` })
      if (response.body === null) throw new Error('no stream')
      return response.body.pipeThrough(new TextDecoderStream()).getReader()
    }
    /** Reads until a heartbeat, or until the end. */
    const next = async (stream: Awaited<ReturnType<typeof follow>>) => {
      for (;;) {
        const { done, value } = await stream.read()
        if (done) return 'ended'
        if (value.includes(': still here')) return 'goes on'
      }
    }
    const [anns, bobs] = [await follow('ann'), await follow('bob')]
    expect([await next(anns), await next(bobs)]).toEqual(['goes on', 'goes on'])
    await sql`delete from access_grant where resource_id = ${pipelineId}`
    // A check that began before the revocation may still succeed.
    await until(
      () => next(bobs),
      (heard) => heard === 'ended',
    )
    expect(await next(anns)).toBe('goes on')
    await anns.cancel()
  } finally {
    often.stop()
    await objects.close()
    await rm(root, { recursive: true, force: true })
  }
})
