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
    for (const visibleIds of [[own.id], []])
      for (const machine of MACHINES)
        for (const query of [{}, { q: 'canary' }, { q: other.id }, { pipeline: 'other-canary' }]) {
          const expected = Object.keys(query).length === 0 ? visibleIds.length : 0
          const answer = await under.inspector.list(machine, query, sees(visibleIds))
          const counted = Object.values(answer.counts).reduce((sum, { count }) => sum + count, 0)
          const figures = [answer.total, answer.instances.length, counted]
          expect([machine, query, ...figures]).toEqual([machine, query, expected, expected, expected])
          expect(JSON.stringify(answer)).not.toContain('canary')
        }
    const badges = async (visibleIds?: string[]) => {
      const drawn = await under.inspector.draw('run', { counts: '1' }, visibleIds && sees(visibleIds))
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
    const blind = firstEvent(under.feeds.followList('draft', 'a', true)).then((event) => ['blind', event])
    const seeing = firstEvent(under.feeds.followList('draft', 'b')).then((event) => ['seeing', event])
    const changed = 'event: changed\ndata: {"machine":"draft"}\n\n'
    expect(await Promise.race([blind, seeing])).toEqual(['seeing', expect.stringContaining(changed)])
    expect(await blind).toEqual(['blind', expect.stringContaining(changed)])
  })

  async function firstEvent(stream: ReadableStream<Uint8Array> | null) {
    let received = ''
    if (stream !== null)
      for await (const chunk of stream) {
        received += new TextDecoder().decode(chunk)
        if (received.includes('event:')) break
      }
    return received
  }

  test('reasons for waiting do not count runs of other pipelines', async () => {
    const [own, other] = [await pipeline('own'), await pipeline('other')]
    await other.request()
    const id = await own.request()
    const discreet = makeInspectorService({
      sql: under.sql,
      clock: systemClock,
      disclosesOtherRuns: false,
      runner: async () => {},
    })
    const waits = async (from: typeof discreet) => (await from.snapshot('run', id))?.waits_for[0]?.text
    expect([await waits(discreet), await waits(under.inspector)]).toEqual([
      'The run waits for a runner with a free slot.',
      'The run waits for a runner with a free slot. One older run of other pipelines has waited longer.',
    ])
  })
})
