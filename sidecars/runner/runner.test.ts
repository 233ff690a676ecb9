import { beforeAll, describe, expect, test } from 'bun:test'
import { Code, ConnectError } from '@connectrpc/connect'
import { runnerAt } from '../../app/rpc/clients.ts'
import type { TableName } from '../../ground/names.ts'
import { RunPhase, RunStatus, Severity } from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { until } from '../../tools/kit/until.ts'
import { cpuSecondsOf } from '../core/process-usage.ts'
import { isAlive } from '../core/testing.ts'
import { testAccess } from '../rpc/testing.ts'
import { SLIPS_MAX } from './author/slips.ts'
import { PREVIEWED, previewsOf } from './preview/test-previews.ts'
import { useRunner } from './test-runner.ts'
import { filesOf, follow, type RunnerProcess, runToEnd, startRunner, workDirectoriesOf } from './testing.ts'

const ENDLESS = 'select sum(a.range * b.range) as n from range(1000000) a, range(1000000) b'

const { service, runner, aTable, run, publish, failureOf, judgeMain } = await useRunner({
  RUNNER_CONCURRENCY: '2',
  ENGINE_MEMORY_LIMIT: '200MB',
})

type Files = Record<string, string>
const sqlFiles = (sql: string, more: Files = {}): Files => ({ 'pipeline.sql': sql, ...more })
const appending = { 'config.yaml': 'merge_strategy: append_only' }

/** The number that each question returns on main. */
async function ask(table: TableName, questions: Files): Promise<Record<string, number | string>> {
  const results = await judgeMain(table, questions)
  return Object.fromEntries(results.map(({ name, value, error }) => [name, error || Number(value)]))
}

/** Resolves when the attempt executes. */
async function untilExecuting(handle: string): Promise<void> {
  for await (const { phase } of runner.client.streamLogs({ handle })) if (phase === RunPhase.EXECUTING) return
}

describe('an attempt', () => {
  test('an attempt renders, executes, commits once, is tested and reports every step', async () => {
    const table = aTable()
    const more = {
      'config.yaml': 'descripton: typo\nmax_retries: 2\nretry_delay_seconds: 7',
      'tests/quality/no-nulls.sql': 'select count(*) from {{ this }} where a is null',
    }
    const { submit, facts, lines, phases } = await run(table, 'select 1 as a', more)
    expect(facts).toMatchObject({
      status: RunStatus.COMPLETED,
      rowsWritten: 1n,
      maxRetries: 2,
      retryDelaySeconds: 7,
      archiveLandingZones: false,
      tests: [{ name: 'no-nulls', severity: Severity.ERROR, passed: true, value: 0n, error: '' }],
    })
    expect(phases).toEqual([RunPhase.RENDERING, RunPhase.EXECUTING, RunPhase.TESTING])
    const messages = lines.map((line) => line.replace(/\d+(\.\d+)? (ms|s|B)\b|(?<=^cost: ).*/g, 'N'))
    // The tests run on the files while the files are committed.
    expect(messages.toSorted()).toEqual(
      [
        'config.yaml line 1: unknown key "descripton" is ignored',
        'rendered pipeline.sql in N',
        'rendered SQL:\nselect 1 as a',
        '1 row, N of Parquet in N',
        "committed to the run's branch in N",
        'test no-nulls: passed in N',
        '1 test passed, 0 failed in N',
        'attempt 1 done in N',
        'cost: N',
      ].toSorted(),
    )
    expect(await service.merge(submit, facts.testedCommit)).toBe('merged')
    expect(await ask(table, { rows: 'select count(*) from {{ this }}' })).toEqual({ rows: 1 })
    await until(
      () => workDirectoriesOf(runner),
      (paths) => paths.length === 0,
    )
  })

  test('an attempt reads several tables of main by name and alias', async () => {
    const [a, b, c, joined] = [aTable(), aTable(), aTable('silver'), aTable('gold')]
    await publish(a, 'select range as id from range(10)')
    await publish(b, "select range as id, 'x' || range as text from range(5)")
    await publish(c, 'select 3 as id, 1.5::decimal(9,2) as price')
    const { lines } = await publish(
      joined,
      `select ${b.name}.text, c.price
       from {{ ref('bronze.${a.name}') }} join {{ ref('default.bronze.${b.name}') }} using (id)
       left join {{ ref("silver.${c.name}") }} c using (id)`,
    )
    expect(lines).toContain(`reads default.bronze.${a.name}: 10 rows in 1 file`)
    const answers = await ask(joined, {
      rows: 'select count(*) from {{ this }}',
      priced: 'select text from {{ this }} where price = 1.5',
    })
    expect(answers).toEqual({ rows: 5, priced: 1 })
  })

  test('an attempt uses a lake on a shared disk in place', async () => {
    const local = await startRunner({ LAKE_DIR: service.lakeDir })
    const [a, b] = [aTable(), aTable()]
    const failing = { 'tests/quality/few.sql': 'select * from {{ this }} where n > 1' }
    await publish(a, 'select range as n from range(4)', appending, local)
    await publish(a, 'select 10 as n', appending, local)
    const { facts } = await publish(b, `select * from {{ ref('bronze.${a.name}') }}`, failing, local)
    expect(facts).toMatchObject({ rowsWritten: 5n, tests: [{ passed: false, value: 3n }] })
    expect(await ask(b, { sum: 'select sum(n) from {{ this }}' })).toEqual({ sum: 16 })
    await local.stop()
  })
})

test('an attempt loads its own table only if its metadata is unknown', async () => {
  const table = aTable()
  await publish(table, 'select 1 as n', appending)
  const asksFor = async (fields: { tableMetadata?: string | undefined }) => {
    const submit = { ...(await service.attempt(table, sqlFiles('select 2 as n', appending))), ...fields }
    const before = service.requests.length
    const { facts } = await runToEnd(runner.client, submit)
    expect(await service.merge(submit, facts.testedCommit)).toBe('merged')
    return service.requests.slice(before).filter((call) => call.startsWith('GET /catalog/'))
  }
  expect(await asksFor({})).toEqual([])
  expect(await asksFor({ tableMetadata: undefined })).toHaveLength(1)
  expect(await ask(table, { sum: 'select sum(n) from {{ this }}' })).toEqual({ sum: 5 })
})

test('requests of an attempt carry its own trace and no other', async () => {
  const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
  const traceHeadersOf = async (trace: { traceparent?: string; tracestate?: string }) => {
    const submit = await service.attempt(aTable(), sqlFiles('select 1 as n', appending))
    const before = service.requestHeaders.length
    const { facts } = await runToEnd(runner.client, { ...submit, ...trace })
    expect(facts).toMatchObject({ status: RunStatus.COMPLETED, testedCommit: expect.stringMatching(/./) })
    const headers = service.requestHeaders.slice(before)
    expect(headers).not.toEqual([])
    return [...new Set(headers.map((each) => `${each.get('traceparent')} ${each.get('tracestate')}`))].sort()
  }
  const traced = traceHeadersOf({ traceparent, tracestate: 'a=1' })
  expect(await traced).toEqual([`${traceparent} a=1`])
  expect(await traceHeadersOf({})).toEqual(['null null'])
  expect(await traceHeadersOf({ traceparent: 'none\r\nx: y', tracestate: 'a=1' })).toEqual(['null null'])
})

describe('the changes of a run', () => {
  test('full_refresh replaces rows and schema, even with an empty result', async () => {
    const table = aTable()
    await publish(table, 'select range as a from range(7)')
    await publish(table, "select 'x' as b, 2 as a")
    expect(
      await ask(table, { rows: 'select count(*) from {{ this }}', b: 'select b from {{ this }}' }),
    ).toEqual({
      rows: 1,
      b: 1,
    })
    const { facts } = await publish(table, "select 'x' as b where false")
    expect(facts).toMatchObject({ rowsWritten: 0n, testedCommit: expect.stringMatching(/./) })
    expect(await ask(table, { rows: 'select count(*) from {{ this }}' })).toEqual({ rows: 0 })
  })

  test('append_only creates its table at the first run, even without rows', async () => {
    const table = aTable()
    const first = await publish(table, 'select 1 as a where false', {
      ...appending,
      'tests/quality/rows.sql': 'select count(*) from {{ this }}',
    })
    expect(first.facts).toMatchObject({
      rowsWritten: 0n,
      testedCommit: expect.stringMatching(/./),
      tests: [{ passed: true, value: 0n, error: '' }],
    })
    expect(await ask(table, { rows: 'select count(a) from {{ this }}' })).toEqual({ rows: 0 })
    await publish(table, 'select 1 as a', appending)
    expect(await ask(table, { rows: 'select count(a) from {{ this }}' })).toEqual({ rows: 1 })
  })

  test('append_only adds rows and columns, and no rows make no commit', async () => {
    const table = aTable()
    await publish(table, 'select range as a from range(3)', appending)
    const counting = { 'tests/quality/rows.sql': 'select count(*) - 5 from {{ this }}' }
    const second = await publish(table, "select range as a, 'new' as b from range(2)", {
      ...appending,
      ...counting,
    })
    expect(second.facts).toMatchObject({ rowsWritten: 2n, tests: [{ passed: true }] })
    const none = await publish(table, 'select 1::bigint as a where false', { ...appending, ...counting })
    expect(none.facts).toMatchObject({ rowsWritten: 0n, testedCommit: '', tests: [{ passed: true }] })
    expect(none.lines).toContain('no rows to write: the table stays as it is')
    expect(await ask(table, { nulls: 'select count(*) from {{ this }} where b is null' })).toEqual({
      nulls: 3,
    })

    const error = await failureOf("select 'text' as a", appending, table)
    expect(error).toMatch(
      /^executing: pipeline.sql: column "a" is BIGINT in the table and VARCHAR in the new rows, where the value text does not fit: cast it/,
    )
  })

  test('a merge replaces some files, and its tests see the whole table', async () => {
    const table = aTable()
    const config = { 'config.yaml': 'merge_strategy: incremental\nunique_key: id' }
    const judged = {
      ...config,
      'tests/quality/all.sql': 'select count(*) - 200_500 from {{ this }}',
      'tests/quality/once.sql': 'select id from {{ this }} group by id having count(*) > 1',
      'tests/quality/changed.sql': 'select count(*) - 1_000 from {{ this }} where v = -1',
    }
    await publish(table, 'select range as id, range as v from range(200_000)', config)
    const { facts, lines } = await publish(
      table,
      'select range + 199_500 as id, -1 as v from range(1_000)',
      judged,
    )
    expect(facts).toMatchObject({
      rowsWritten: 1_000n,
      tests: [1, 2, 3].map(() => ({ passed: true, error: '' })),
    })
    expect(
      lines.find((line) => line.startsWith('1,000 rows inserted or changed, 1 file replaced')),
    ).toBeDefined()
    const answers = await ask(table, {
      rows: 'select count(*) from {{ this }}',
      sum: 'select sum(v) from {{ this }}',
    })
    expect(answers).toEqual({ rows: 200_500, sum: (199_499 * 199_500) / 2 - 1_000 })
    const same = await publish(table, 'select 1 as id, 1 as v where false', judged)
    expect(same.facts).toMatchObject({ rowsWritten: 0n, testedCommit: '' })
    expect(same.facts.tests.map(({ passed }) => passed)).toEqual([true, true, true])
  })

  test("scd2 versions begin at the run's start, and unchanged rows add none", async () => {
    const table = aTable()
    const config = { 'config.yaml': 'merge_strategy: scd2\nunique_key: id\npartition_by: [{column: id}]' }
    await publish(table, "select * from (values (1, 'a'), (2, 'b')) t(id, v)", config)
    const changed = "select * from (values (1, 'a'), (2, 'c')) t(id, v)"
    await publish(table, changed, config)
    const again = await publish(table, changed, config)
    expect(again.facts).toMatchObject({ rowsWritten: 0n, testedCommit: '' })
    const answers = await ask(table, {
      rows: 'select count(*) from {{ this }}',
      open: 'select count(*) from {{ this }} where valid_to is null',
      closed: "from {{ this }} where v = 'b' and valid_to = (select max(valid_from) from {{ this }})",
    })
    expect(answers).toEqual({ rows: 3, open: 2, closed: 1 })
  })

  test('the watermark and the own table show the state before the run', async () => {
    const table = aTable()
    const config = { 'config.yaml': 'merge_strategy: append_only\nwatermark_column: day' }
    const sql = `select coalesce(max(day), date '2001-01-01') + 1 as day, '{{ watermark_value }}' as seen
                 from {% if watermark_value %}{{ this }}{% else %}(select null::date as day){% endif %}`
    await publish(table, sql, config)
    await publish(table, sql, config)
    const answers = await ask(table, {
      first: "select * from {{ this }} where day = '2001-01-02' and seen = 'none'",
      second: "select * from {{ this }} where day = '2001-01-03' and seen = '2001-01-02'",
    })
    expect(answers).toEqual({ first: 1, second: 1 })
  })
})

describe('landing files', () => {
  const zoneFiles = { 'config.yaml': 'archive_landing_zones: true' }
  const reading = (zone: string) => `select a, filename as file
    from read_csv_auto('{{ landing_zone("${zone}") }}', filename = true)`

  test('a run reads exactly the landing files frozen for it', async () => {
    const zone = await service.zone('drops')
    const files = [
      await service.upload(zone, 'drops', 'one.csv', 'a\n1\n2\n'),
      await service.upload(zone, 'drops', 'größe 2.csv', 'a\n3\n'),
    ]
    await service.upload(zone, 'drops', 'later.csv', 'a\n4\n')
    const table = aTable()
    const submit = await service.attempt(table, sqlFiles(reading('drops'), zoneFiles), {
      landing: [{ namespace: 'default', zone: 'drops', files }],
    })
    await service.sql`
      insert into run_file (run_id, attempt, landing_file_id, zone_id)
      select ${submit.runId}, 1, unnest(${files.map(({ id }) => id)}::uuid[]), ${zone}`
    const { facts, lines } = await runToEnd(runner.client, submit)
    expect(facts).toMatchObject({
      status: RunStatus.COMPLETED,
      rowsWritten: 3n,
      archiveLandingZones: true,
      landingFileIds: files.map(({ id }) => id),
    })
    expect(lines).toContain('reads landing zone drops: 2 files, 10 B')
    await service.merge(submit, facts.testedCommit)
    expect(await ask(table, { named: "from {{ this }} where file = 'landing/drops/größe 2.csv'" })).toEqual({
      named: 1,
    })
  })

  test('landing files have the same path in every run, as keys', async () => {
    const zone = await service.zone('again')
    await service.upload(zone, 'again', 'a.csv', 'a\n1\n2\n')
    const table = aTable()
    const config = { 'config.yaml': 'merge_strategy: delete_insert\nunique_key: file' }
    await publish(table, reading('again'), config)
    await service.upload(zone, 'again', 'b.csv', 'a\n3\n')
    const { facts } = await publish(table, reading('again'), config)
    expect(facts.rowsWritten).toBe(3n)
    expect(
      await ask(table, {
        rows: 'select count(*) from {{ this }}',
        files: 'select distinct file from {{ this }}',
      }),
    ).toEqual({ rows: 3, files: 2 })
    // A relative path cannot lead out of the working directory.
    for (const path of ['landing/again/../../../../*', '../*', '../../inputs/*', 'http://127.0.0.1:1/a'])
      expect(await failureOf(`select * from read_text('${path}')`, {}, table)).toContain('Permission Error')
  })

  test('a landing zone with a computed name is frozen on first use', async () => {
    const zone = await service.zone('made-up')
    await service.upload(zone, 'made-up', 'a.csv', 'a\n1\n')
    const sql = reading('made-up').replace('"made-up"', '"made" ~ "-up"')
    const { facts } = await publish(aTable(), sql)
    expect(facts.landingFileIds).toHaveLength(1)
  })

  describe('a run reports only the files that it opened', () => {
    beforeAll(async () => {
      const zone = await service.zone('mixed')
      await service.upload(zone, 'mixed', 'a.csv', 'a\n1\n')
      await service.upload(zone, 'mixed', 'b.csv', 'a\n2\n')
      await service.upload(zone, 'mixed', 'c.json', '{"a": 3}\n')
    })
    const sql = (path: string) => sqlFiles(`select a from read_csv(${path})`, zoneFiles)
    const set = (path: string) => `{% set path = landing_zone('mixed') | replace('*', '${path}') %}`
    const python = (source: string) => ({ 'pipeline.py': source })
    const opening = `import glob
        path = sorted(glob.glob(landing_zone('mix' + 'ed').replace('*', '*.json')))[0]
        result = [{'a': len(open(path).read())}]`.replaceAll(/^ {8}/gm, '')
    const bytes = `import os
        path = landing_zone('mixed')
        file = os.open(path.replace('*', [name for name in os.listdir(path[:-1]) if 'json' in name][0]), os.O_RDONLY)
        result = [{'a': len(os.read(file, 100))}]`.replaceAll(/^ {8}/gm, '')
    test.each<[string, Record<string, string>, string[]]>([
      ['a filter', sql(`'{{ landing_zone("mixed") | replace("*", "*.csv") }}'`), ['a.csv', 'b.csv']],
      ['a variable', sql(`'{{ path }}'`), ['b.csv']],
      ['a list', sql(`['{{ landing_zone("mixed") | replace("*", "*a.csv") }}']`), ['a.csv']],
      ['a pattern', sql(`'{{ landing_zone("mixed", pattern="[ab].csv") }}'`), ['a.csv', 'b.csv']],
      [
        'a pattern of one file',
        sql(`'{{ landing_zone("mixed", pattern = '?.csv' | replace('?', 'b')) }}'`),
        ['b.csv'],
      ],
      ['a comment', sqlFiles(`select 1 as a -- {{ landing_zone('mixed') }}`, zoneFiles), []],
      [
        'the query of Python',
        python(`result = sql(f"from read_json('{landing_zone('mixed', pattern='*.json')}')")`),
        ['c.json'],
      ],
      ['open() of Python', python(opening), ['c.json']],
      ['os.open() of Python', python(bytes), ['c.json']],
    ])('%s', async (name, given, names) => {
      const files =
        name === 'a variable' ? { ...given, 'pipeline.sql': set('*b.csv') + given['pipeline.sql'] } : given
      const type = 'pipeline.py' in files ? 'python' : 'sql'
      const submit = await service.attempt(aTable(), files)
      const { facts } = await runToEnd(runner.client, { ...submit, type })
      expect(facts).toMatchObject({ status: RunStatus.COMPLETED })
      const read =
        await service.sql`select original_name from landing_file where id = any(${facts.landingFileIds}::uuid[]) order by 1`
      expect(read.map((row) => row.original_name)).toEqual(names)
    })
  })

  test('missing landing files are an error, except after an archived upload', async () => {
    await service.zone('empty')
    const table = aTable()
    expect(await failureOf(reading('empty'), {}, table)).toMatch(
      /^rendering: pipeline.sql line 2 column \d+: landing zone empty has no files$/,
    )
    expect(await failureOf(reading('nowhere'), {}, table)).toContain('landing zone nowhere does not exist')
    const submit = await service.attempt(table, sqlFiles(reading('empty')))
    const { facts } = await runToEnd(runner.client, { ...submit, emptyLandingIsSuccess: true })
    expect(facts).toMatchObject({ status: RunStatus.COMPLETED, rowsWritten: 0n, testedCommit: '' })
  })
})

describe('quality tests', () => {
  test('a quality test that breaks off fails, and samples cover all rows', async () => {
    const { facts, lines } = await run(aTable(), 'select range as n from range(1000000)', {
      'tests/quality/breaks-off.sql':
        "select if(n = 900000, error('too late'), n) as n, 'x' as x from {{ this }} where n > 2",
      'tests/quality/scattered.sql':
        "-- @severity: warn\nselect n, 'odd' as why from {{ this }} where n in (10, 400000, 900000)",
    })
    const [breaksOff, scattered] = facts.tests
    expect([breaksOff?.passed, breaksOff?.error]).toEqual([false, expect.stringContaining('too late')])
    expect([scattered?.passed, scattered?.value]).toEqual([false, 3n])
    expect(lines.filter((line) => line.startsWith('test scattered: n='))).toHaveLength(3)
  })

  test('quality tests judge the branch before readers, each with its severity', async () => {
    const table = aTable()
    const { facts, lines } = await run(table, 'select range as n from range(6)', {
      'tests/quality/bad-rows.sql':
        '-- @severity: warn\nselect n, n * 2 as twice from {{ this }} where n > 1 order by n',
      'tests/quality/broken.sql': 'select count(*)\nfrom {{ this }} where nope = 1',
      'tests/quality/missing.sql': "-- @severity: warn\nselect * from {{ ref('gold.nothing') }}",
      'tests/quality/number.sql': 'select count(*) from {{ this }} where n = 3',
      'tests/quality/writes.sql': "copy (select 1) to '/tmp/out.csv'",
    })
    expect(facts.status).toBe(RunStatus.COMPLETED)
    expect(
      facts.tests.map(({ name, severity, passed, value }) => [name, severity, passed, Number(value)]),
    ).toEqual([
      ['bad-rows', Severity.WARN, false, 4],
      ['broken', Severity.ERROR, false, 0],
      ['missing', Severity.WARN, false, 0],
      ['number', Severity.ERROR, false, 1],
      ['writes', Severity.ERROR, false, 0],
    ])
    const [, broken, missing] = facts.tests
    expect(broken?.error).toStartWith(
      'tests/quality/broken.sql line 2: Binder Error: Referenced column "nope" not found',
    )
    expect(missing?.error).toBe(
      'tests/quality/missing.sql line 2 column 18: table default.gold.nothing does not exist',
    )
    const text = lines.join('\n')
    expect(text).toContain('test bad-rows: failed with value 4 (severity warn)')
    expect(text).toContain('test bad-rows: n=4, twice=8')
    expect(text).not.toContain('n=5, twice=10')
    expect(text).toContain('0 tests passed, 5 failed')
    // The branch was not merged, so main has no such table.
    expect(await ask(table, { rows: 'select count(*) from {{ this }}' })).toEqual({
      rows: expect.stringContaining('does not exist'),
    })
  })

  test('quality tests can run against main outside of runs', async () => {
    const [a, b] = [aTable(), aTable()]
    await publish(a, 'select range as n from range(6)')
    await publish(b, 'select 1 as n')
    const answers = await ask(a, {
      count: 'select count(*) from {{ this }}',
      other: `select n from {{ ref('bronze.${b.name}') }}`,
      zone: 'select \'{{ landing_zone("drops") }}\'',
    })
    expect(answers).toEqual({ count: 6, other: 1, zone: expect.stringContaining('can be read in runs only') })
  })
})

describe('the runner process', () => {
  test('the runner cancels a query that would take hours, and continues', async () => {
    const submit = await service.attempt(aTable(), sqlFiles(ENDLESS))
    const { handle } = await runner.client.submitPipeline(submit)
    await untilExecuting(handle)
    expect(await runner.client.cancelRun({ handle })).toMatchObject({ interrupted: true })
    expect((await runner.client.getRunStatus({ handle })).status).toBe(RunStatus.CANCELLED)
    expect((await follow(runner.client, handle)).lines.at(-1)).toBe('cancelled')
    expect(await runner.client.cancelRun({ handle })).toMatchObject({ interrupted: false })
    expect(await runner.client.cancelRun({ handle: 'no:1' })).toMatchObject({ interrupted: false })
    await publish(aTable(), 'select 1 as a')
  })

  test.each([
    [
      'writes many files',
      'select a.range as x, b.range as y from range(1000000) a, range(1000000) b',
      'written',
    ],
    [
      'sorts more rows than its memory holds',
      "select range as a, repeat('x', 100) || range as b from range(40_000_000) order by hash(range)",
      'spill-',
    ],
  ])('cancelling a run that %s leaves no files', async (_, sql, leaves) => {
    const submit = await service.attempt(aTable(), sqlFiles(sql))
    const { handle } = await runner.client.submitPipeline(submit)
    // Waits until the run writes its files.
    await until(
      () => filesOf(runner),
      (paths) => paths.some((path) => path.includes(`/${leaves}`)),
    )
    expect(await runner.client.cancelRun({ handle })).toMatchObject({ interrupted: true })
    await until(
      () => filesOf(runner),
      (paths) => paths.length === 0,
    )
  })

  test('lack of memory or disk ends only the run that caused it', async () => {
    const small = await startRunner({ ENGINE_MEMORY_LIMIT: '100MB', ENGINE_TEMP_LIMIT: '20MB' })
    const other = await service.attempt(aTable(), sqlFiles(ENDLESS))
    const { handle } = await small.client.submitPipeline(other)
    const greedy = "select repeat('x', 100) || range as b from range(10_000_000) order by hash(range)"
    const { facts } = await runToEnd(small.client, await service.attempt(aTable(), sqlFiles(greedy)))
    expect(facts.error).toStartWith(
      'executing: pipeline.sql: the query needs more temporary disk than the engine may use: Out of Memory Error: failed to offload',
    )
    expect(facts.error).not.toContain('setting')
    expect((await small.client.getRunStatus({ handle })).status).toBe(RunStatus.RUNNING)
    await small.client.cancelRun({ handle })
    await small.stop()
  })

  test('a run at its time limit is stopped with that reason', async () => {
    // The limit is long for the run that ends by itself, on any machine.
    const short = await startRunner({ RUN_TIMEOUT: '5' })
    const { facts } = await runToEnd(short.client, await service.attempt(aTable(), sqlFiles(ENDLESS)))
    expect(facts.error).toBe('executing: the run exceeded its time limit of 5 s (RUN_TIMEOUT)')
    const next = await runToEnd(short.client, await service.attempt(aTable(), sqlFiles('select 1 as a')))
    expect(next.facts.status).toBe(RunStatus.COMPLETED)
    await short.stop()
  })

  test('a run beyond its output limit is stopped and keeps no files', async () => {
    const small = await startRunner({ RUN_OUTPUT_LIMIT: '2MB' })
    // Random texts, which cannot be compressed.
    const sql = 'select i, md5(i::varchar) || md5((i + 0.5)::varchar) as t from range($) r(i)'
    const table = aTable()
    const filesOfTable = async () =>
      (await service.objects.list('_lake/', { limit: 10_000 })).objects.filter(({ key }) =>
        key.includes(table.name),
      )
    for (const rows of ['200_000', '200_000_000']) {
      const { facts } = await runToEnd(
        small.client,
        await service.attempt(table, sqlFiles(sql.replace('$', rows))),
      )
      expect(facts.error).toBe(
        'executing: the result needs more than 2 MB of files (RUN_OUTPUT_LIMIT): write fewer rows or columns, or raise the limit',
      )
      expect(await filesOf(small)).toEqual([])
      expect(await filesOfTable()).toEqual([])
    }
    const next = await runToEnd(small.client, await service.attempt(table, sqlFiles(sql.replace('$', '100'))))
    expect(next.facts.status).toBe(RunStatus.COMPLETED)
    await small.stop()
  })

  test('no run begins on a disk that is nearly full', async () => {
    const fullRunner = await startRunner({ DISK_FLOOR: '8000000GB' })
    const submit = await service.attempt(aTable(), sqlFiles('select 1 as a'))
    await expect(fullRunner.client.submitPipeline(submit)).rejects.toMatchObject({
      code: Code.ResourceExhausted,
    })
    const { check, waitsFor } = runnerAt(
      fullRunner.url,
      () => {},
      testAccess(new URL(submit.lake?.objectsUrl ?? '').origin),
    )
    // The runner listens before its first engine is warm.
    await until(() =>
      check().then(
        () => true,
        () => false,
      ),
    )
    expect(waitsFor?.()).toContain('of disk space are free, and DISK_FLOOR is')
    await fullRunner.stop()
  })

  test('the runner accepts an attempt once, and rejects attempts beyond its slots', async () => {
    const [a, b, c] = await Promise.all([1, 2, 3].map(() => service.attempt(aTable(), sqlFiles(ENDLESS))))
    if (!a || !b || !c) throw new Error('three attempts')
    const first = await runner.client.submitPipeline(a)
    expect(first.handle).toBe(`${a.runId}:1`)
    // The clean-up of the tests before may still be running.
    const again = await until(
      () => runner.client.submitPipeline(a),
      ({ freeSlots }) => freeSlots === 1,
    )
    expect(again).toMatchObject({ handle: first.handle, bootId: first.bootId })
    const second = await runner.client.submitPipeline(b)
    expect(second.freeSlots).toBe(0)
    expect(await codeOf(runner.client.submitPipeline(c))).toBe(Code.ResourceExhausted)
    expect(await codeOf(runner.client.getRunStatus({ handle: `${c.runId}:1` }))).toBe(Code.NotFound)
    expect(await codeOf(runner.client.submitPipeline({ ...c, type: 'perl' }))).toBe(Code.InvalidArgument)
    await Promise.all([first, second].map(({ handle }) => runner.client.cancelRun({ handle })))
  })

  test('a log can be read from any line, with heartbeats during silence', async () => {
    const submit = await service.attempt(aTable(), sqlFiles('select 1 as a'))
    const allEvents = await runToEnd(runner.client, submit)
    const laterEvents = await follow(runner.client, `${submit.runId}:1`, 1n)
    expect(laterEvents.lines).toEqual(allEvents.lines.slice(1))
    expect(laterEvents.phases).toEqual(allEvents.phases)

    const endless = await runner.client.submitPipeline(await service.attempt(aTable(), sqlFiles(ENDLESS)))
    for await (const { entry, phase, bootId } of runner.client.streamLogs({ handle: endless.handle })) {
      if (entry || phase) continue
      expect(bootId).toBe(endless.bootId)
      break
    }
    await runner.client.cancelRun({ handle: endless.handle })
  })

  test('a run continues while the API is away, and commits once', async () => {
    const table = aTable()
    const slow = 'select count(*) as n from range(40_000_000) where hash(range) > 0'
    const submit = await service.attempt(table, sqlFiles(slow))
    const { handle } = await runner.client.submitPipeline(submit)
    await untilExecuting(handle)
    const ended = follow(runner.client, handle)
    await service.away(async () => {
      for await (const { entry } of runner.client.streamLogs({ handle }))
        if (entry?.message.includes('1 row')) return
    })
    await ended
    const facts = await runner.client.getRunStatus({ handle })
    expect(facts).toMatchObject({ status: RunStatus.COMPLETED, error: '' })
    expect(await service.merge(submit, facts.testedCommit)).toBe('merged')
    expect(await service.sql`select from lake_commit where run_id = ${submit.runId}`).toHaveLength(1)
  })
})

describe('a runner that ends', () => {
  /** Follows a running attempt. Returns how its stream ends, once the attempt executes. */
  async function followEndless(to: RunnerProcess): Promise<{ ended: Promise<Code | undefined> }> {
    const { handle } = await to.client.submitPipeline(await service.attempt(aTable(), sqlFiles(ENDLESS)))
    const isExecuting = Promise.withResolvers<void>()
    const following = async () => {
      for await (const { phase } of to.client.streamLogs({ handle }))
        if (phase === RunPhase.EXECUTING) isExecuting.resolve()
    }
    const ended = codeOf(following())
    await isExecuting.promise
    return { ended }
  }

  test('a stopped runner leaves no process, and followers see it leave', async () => {
    const ownRunner = await startRunner()
    const { ended } = await followEndless(ownRunner)
    const [engine = 0] = ownRunner.engines()
    process.kill(ownRunner.pid, 'SIGTERM')
    await ownRunner.stop()
    expect(await ended).toBe(Code.Unavailable)
    expect(isAlive(engine)).toBe(false)
  })

  test('a killed runner takes its engines with it', async () => {
    const ownRunner = await startRunner()
    const { ended } = await followEndless(ownRunner)
    const [engine = 0] = ownRunner.engines()
    process.kill(ownRunner.pid, 'SIGKILL')
    await ended
    await until(() => !isAlive(engine))
    await ownRunner.stop()
  })
})

test('the runner itself executes no template of an author', async () => {
  const source =
    '{% set l = range(1000)|list %}{% for i in range(10000) %}{% if -1 in l %}{% endif %}{% endfor %}select 1 as a'
  const secondsOf = () => cpuSecondsOf(runner.pid) ?? Number.NaN
  let before = secondsOf()
  const { facts } = await run(aTable(), source)
  expect(facts.error).toContain('the template takes too long')
  const work = facts.cost?.cpuSeconds ?? Number.NaN
  const spent = [secondsOf() - before]
  const draft = { ...PREVIEWED, pipelineName: 'x', type: 'sql' }
  const testFile = { path: 'tests/quality/a.sql', content: source }
  const files = [{ path: 'pipeline.sql', content: 'select 1 as a' }, testFile]
  before = secondsOf()
  const { valid } = await runner.client.validatePipeline({ ...draft, files })
  spent.push(secondsOf() - before)
  before = secondsOf()
  const { message } = await previewsOf(runner, service).refusalOf({ 'pipeline.sql': source })
  spent.push(secondsOf() - before)
  before = secondsOf()
  const [judged] = await judgeMain(aTable(), { a: source })
  spent.push(secondsOf() - before)
  expect([valid, message, judged?.error]).toEqual([
    false,
    expect.stringContaining('takes too long'),
    expect.stringContaining('takes too long'),
  ])
  // Each of them does the work of one template.
  expect(spent.filter((seconds) => seconds > work / 2)).toEqual([])
})

test('a draft with thousands of bare table names is validated quickly', async () => {
  const content = 'select {% for n in range(3000) %}(from t_{{ n }}), {% endfor %}1 as a'
  const draft = { namespace: 'default', layer: 'silver', pipelineName: 'x', type: 'sql' }
  const { valid, files } = await runner.client.validatePipeline({
    ...draft,
    files: [{ path: 'pipeline.sql', content }],
  })
  expect([valid, files[0]?.errors]).toEqual([true, []])
  expect(files[0]?.warnings).toHaveLength(SLIPS_MAX)
  expect(files[0]?.warnings[0]).toStartWith('line 1 column 40: t_0 is a bare table name')
})

test('a draft is validated without being executed', async () => {
  const { valid, files } = await runner.client.validatePipeline({
    namespace: 'default',
    layer: 'silver',
    pipelineName: 'x',
    type: 'sql',
    files: [
      { path: 'pipeline.sql', content: "select * from {{ ref('bronze.a') }}, {{ ref('bronze.b') }}" },
      { path: 'default/pipelines/silver/x/config.yaml', content: 'merge_strategy: sideways' },
    ],
    knownTables: ['default.bronze.a'],
    knownZones: ['default.z'],
  })
  expect(valid).toBe(false)
  expect(files).toMatchObject([
    { path: 'pipeline.sql', valid: true, warnings: ['line 1 column 41: there is no table "bronze.b"'] },
    { path: 'config.yaml', valid: false },
  ])
})

async function codeOf(call: Promise<unknown>): Promise<Code | undefined> {
  const error = await call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  return error instanceof ConnectError ? error.code : undefined
}
