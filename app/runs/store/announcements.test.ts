import { beforeAll, expect, test } from 'bun:test'
import type { SqlTx } from '../../../drizzle/client.ts'
import { cteStatement } from '../../../drizzle/cte-statement.ts'
import { until } from '../../../tools/kit/until.ts'
import { newId, type RunId } from '../../core/ids.ts'
import { useRuns } from '../test-runs.ts'
import { announcedEvents, announcedPart } from './announcements.ts'
import type { LockedRun } from './moves.ts'
import { listen, makeNotices } from './notices.ts'

const TRIGGERS = 5_000

const { opened, pipelineNamed } = useRuns(1)
beforeAll(async () => {
  const { sql } = opened
  const { id } = await pipelineNamed('downstream')
  await sql`
    insert into trigger (id, pipeline_id, type, config, snapshot, machine_version, state, source)
    select gen_random_uuid(), ${id}, 'pipeline_success', '{}', '{}', 1, 'armed', 'pipeline:default.gold.p' || n
    from generate_series(1, ${TRIGGERS}) n`
  await sql`
    insert into trigger_dependency (trigger_id, source)
    select id, replace(source, '.p', '.d') from trigger`
})

const success = (pipeline: string, more: Partial<LockedRun> = {}) =>
  ({
    id: newId() as RunId,
    namespace: 'default',
    layer: 'gold',
    pipeline,
    branch: 'main',
    status: 'success',
    effects: ['announce'],
    chainDepth: 2,
    ...more,
  }) as LockedRun

test('only a success with a listening trigger is announced, and only once', async () => {
  const { sql } = opened
  const runs = [
    success('p1'),
    success('p1'),
    success('d2'),
    success('p0'),
    success('p3', { status: 'failed' }),
  ]
  const announced = await sql.begin(async (tx) => {
    await cteStatement(tx, announcedPart(tx, runs), tx`select 1`)
    return tx`select source, subject, chain_depth from trigger_event order by id`
  })
  expect(announced).toEqual(
    runs.slice(0, 3).map(({ id, pipeline }) => ({
      source: `pipeline:default.gold.${pipeline}`,
      subject: id,
      chain_depth: 3,
    })) as never,
  )
})

test('the commit reports a recorded event once, and says nothing about other successes', async () => {
  const { sql } = opened
  const reports: unknown[] = []
  const { unlisten } = await listen(sql, (announcement) => reports.push(announcement))
  const reported: number[] = []
  for (const runs of [[success('p0')], [success('p1'), success('d2')]]) {
    const announced = (tx: SqlTx) => announcedPart(tx, runs)
    const [answer] = await sql.begin((tx) =>
      cteStatement(tx, announced(tx), tx`select ${announcedEvents(tx, announced(tx))}`),
    )
    reported.push(answer?.events)
  }
  // Notices arrive in the order of commits.
  const last = makeNotices(sql, () => {})
  last.changed([newId() as RunId])
  await until(() => reports.length > 1)
  await unlisten()
  expect(reported).toEqual([0, 2])
  expect(reports).toEqual([{ isEventRecorded: true }, { changed: [expect.any(String)] }])
})

test.each(['before', 'after'])('an announcement does not scan all triggers %s ANALYZE', async (when) => {
  const { sql } = opened
  if (when === 'after') await sql`analyze trigger, trigger_dependency`
  const plan = await sql.begin(async (tx) => {
    await tx`set local plan_cache_mode = force_generic_plan`
    return tx`explain ${cteStatement(tx, announcedPart(tx, [success('p1')]), tx`select 1`)}`
  })
  const text = plan.map((line) => line['QUERY PLAN']).join('\n')
  expect(text).toContain('using trigger_source on trigger t')
  expect(text).toContain('using trigger_dependency_source on trigger_dependency d')
  expect(text).not.toContain('Seq Scan')
})
