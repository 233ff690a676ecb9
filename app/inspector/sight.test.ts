import { describe, expect, test } from 'bun:test'
import { systemClock } from '../core/clock.ts'
import { makeInspectorService } from './service.ts'
import { inspectorUnderTest } from './test-inspector.ts'

const { under, pipeline, trigger } = inspectorUnderTest()

describe('for a caller who sees only some pipelines', () => {
  const MACHINES = ['run', 'draft', 'trigger'] as const
  const sees = (pipelines: string[]) => ({ pipelines, zones: [], namespaces: [] })

  test('lists, totals, counts and drawings disclose nothing of other pipelines', async () => {
    const [own, other] = [await pipeline('own'), await pipeline('other-canary')]
    for (const { request } of [own, other, other]) await request()
    for (const { id } of [own, other]) await trigger(id, {})
    for (const seen of [[own.id], []])
      for (const machine of MACHINES)
        for (const query of [{}, { q: 'canary' }, { q: other.id }, { pipeline: 'other-canary' }]) {
          const expected = Object.keys(query).length === 0 ? seen.length : 0
          const told = await under.inspector.list(machine, query, sees(seen))
          const counted = Object.values(told.counts).reduce((sum, { count }) => sum + count, 0)
          const figures = [told.total, told.instances.length, counted]
          expect([machine, query, ...figures]).toEqual([machine, query, expected, expected, expected])
          expect(JSON.stringify(told)).not.toContain('canary')
        }
    const badges = async (seen?: string[]) => {
      const drawn = await under.inspector.draw('run', { counts: '1' }, seen && sees(seen))
      return [...drawn.matchAll(/class="badge"[\s\S]*?>(\d+)</g)].map(([, count]) => count)
    }
    expect([await badges([own.id]), await badges()]).toEqual([['1'], ['3']])
  })

  test('hidden pipelines are visible to an unrestricted caller', async () => {
    await pipeline('other-canary')
    for (const query of [{}, { q: 'canary' }, { pipeline: 'other-canary' }])
      expect(JSON.stringify(await under.inspector.list('draft', query))).toContain('other-canary')
  })

  test('a list sends events at fixed intervals instead of after moves', async () => {
    const blind = firstEvent(under.feeds.followList('draft', 'a', true)).then((told) => ['blind', told])
    const seeing = firstEvent(under.feeds.followList('draft', 'b')).then((told) => ['seeing', told])
    const changed = 'event: changed\ndata: {"machine":"draft"}\n\n'
    expect(await Promise.race([blind, seeing])).toEqual(['seeing', expect.stringContaining(changed)])
    expect(await blind).toEqual(['blind', expect.stringContaining(changed)])
  })

  async function firstEvent(stream: ReadableStream<Uint8Array> | null) {
    let told = ''
    if (stream !== null)
      for await (const chunk of stream) {
        told += new TextDecoder().decode(chunk)
        if (told.includes('event:')) break
      }
    return told
  }

  test('reasons for waiting do not count runs of other pipelines', async () => {
    const [own, other] = [await pipeline('own'), await pipeline('other')]
    await other.request()
    const id = await own.request()
    const discreet = makeInspectorService({
      sql: under.sql,
      clock: systemClock,
      tellsOfOthers: false,
      runner: async () => {},
    })
    const waits = async (from: typeof discreet) => (await from.snapshot('run', id))?.waits_for[0]?.text
    expect([await waits(discreet), await waits(under.inspector)]).toEqual([
      'A runner with a free place.',
      'A runner with a free place; One older run of other pipelines has waited longer.',
    ])
  })
})
