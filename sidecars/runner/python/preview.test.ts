import { afterAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { chmod, mkdtemp, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { Code } from '@connectrpc/connect'
import { RunStatus } from '../../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { until } from '../../../tools/kit/until.ts'
import { PREVIEWED, type PreviewOptions, previewsOf } from '../preview/test-previews.ts'
import { useRunner } from '../test-runner.ts'
import { runToEnd, startRunner } from '../testing.ts'
import { stepsHere } from './testing.ts'

setDefaultTimeout(60_000)

const described = describe.skipIf((await stepsHere()).length === 0)

/** A directory that interpreters can reach as another user. The suite's own directory is closed to other users. */
const walkable = await mkdtemp('/tmp/sluice-walkable-')
await chmod(walkable, 0o711)
const { service, runner } = await useRunner({ RUNNER_CONCURRENCY: '1', TMPDIR: walkable })
afterAll(() => rm(walkable, { recursive: true }))

type More = PreviewOptions & { config?: string }

const previews = previewsOf(runner, service)
const filesOf = (source: string, config?: string) => ({
  'pipeline.py': source,
  ...(config !== undefined && { 'config.yaml': config }),
})
const refusalOf = (source: string, { config, ...more }: More = {}) =>
  previews.refusalOf(filesOf(source, config), more)

async function preview(source: string, { config, ...more }: More = {}) {
  const answer = await previews.preview(filesOf(source, config), more)
  const logs = answer.logs.map(({ message }) =>
    message.replace(/[\d.]+ m?s\b|Python [\d.]+|sandbox: \w+/g, 'N').replace(/[\d.]+ k?B/, 'N'),
  )
  return { ...answer, logs }
}

async function workDirectories() {
  const roots = [join(runner.scratchDir, 'python'), walkable]
  const paths = await Promise.all(roots.map((root) => readdir(root, { recursive: true })))
  return paths.flat().filter((path) => path.endsWith('pipeline.py'))
}

described('a preview of a pipeline in Python', () => {
  test('a Python preview returns first rows, total count, output and profile', async () => {
    const answer = await preview(
      `
print("said")
log.warn("careful")
result = [{"id": n, "name": f"n{n}"} for n in range(250)]
`,
      { limit: 2n, config: 'surprise: 1' },
    )
    expect(answer.columns).toEqual([
      { name: 'id', type: 'BIGINT' },
      { name: 'name', type: 'VARCHAR' },
    ])
    expect(answer.rows).toEqual([
      [0, 'n0'],
      [1, 'n1'],
    ])
    expect(answer.totalRowCount).toBe(250n)
    expect(answer.phases.map(({ name }) => name)).toEqual(['template_render', 'sql_execute', 'profiling'])
    expect(answer.phases[1]?.metadata).toEqual({ rows: '250', columns: '2', python_ms: expect.any(String) })
    expect(answer.explainOutput).toContain('250 rows')
    expect(answer.explainOutput).not.toContain(runner.scratchDir)
    expect(Number(answer.memoryPeakBytes)).toBeGreaterThan(0)
    expect(answer.warnings).toEqual(['config.yaml line 1: unknown key "surprise" is ignored'])
    expect(answer.logs).toEqual([
      'config.yaml line 1: unknown key "surprise" is ignored',
      'pipeline.py runs on N, N',
      'said',
      'careful',
      'ran pipeline.py in N',
      '250 rows in N',
      'preview done in N: nothing was written',
    ])
    await until(workDirectories, (paths) => paths.length === 0)
  })

  test('a Python preview reads main and its own table without writing', async () => {
    for (const name of [PREVIEWED.name, 'other']) {
      const submit = await service.attempt(
        { ...PREVIEWED, name },
        { 'pipeline.sql': 'select range as id from range(10)' },
      )
      const { facts } = await runToEnd(runner.client, submit)
      expect(facts.status).toBe(RunStatus.COMPLETED)
      await service.merge(submit, facts.testedCommit)
    }
    const head = () => service.sql`select max(number) as head from lake_commit`
    const before = await head()
    const answer = await preview(
      `
# @merge_strategy: incremental
# @unique_key: id
# @watermark_column: id
other = "silver." + "other"
assert is_incremental()
result = sql(f"select count(*) as n, '{watermark_value}' as mark from {this} a join {ref('silver.previewed')} b using (id) join {ref(other)} using (id)")
`,
    )
    expect(answer.rows).toEqual([[10, '9']])
    expect(answer.explainOutput).toContain('HASH_JOIN')
    expect(await head()).toEqual(before)
    expect(answer.logs).toContain('reads default.silver.previewed: 10 rows in 1 file')
  })

  test('a Python preview reads its samples and warns about unread ones', async () => {
    const zone = await service.zone('orders')
    await service.upload(zone, 'orders', 'a.csv', 'a\n1\n')
    const sample = await service.upload(await service.zone('unread'), 'unread', 'b.csv', 'a\n2\n')
    const answer = await preview(
      `
import glob
paths = glob.glob(landing_zone("or" + "ders"))
result = [{"text": open(path).read()} for path in paths]
`,
      { samples: [{ namespace: 'default', zone: 'unread', files: [sample] }] },
    )
    expect(answer.rows).toEqual([['a\n1\n']])
    expect(answer.warnings).toEqual(['sample_files: the source does not read landing zone unread'])
    expect(answer.logs).toContain('reads landing zone orders: 1 file, N')
    const sampled = await preview(
      `files = landing_zone("orders")
result = sql(f"select * from read_csv_auto('{files}')")`,
      { samples: [{ namespace: 'default', zone: 'orders', files: [sample] }] },
    )
    expect(sampled.rows).toEqual([[2]])
  })

  test('the code of the request replaces the source and its annotations', async () => {
    const answer = await preview('result = 1', {
      code: '# @merge_strategy: append_only\nresult = [{"a": is_append_only()}]',
      config: 'merge_strategy: full_refresh',
    })
    expect(answer.rows).toEqual([[true]])
  })

  test('a Python preview names the line of an error', async () => {
    const refused = async (source: string, message: RegExp, config?: string) =>
      expect(await refusalOf(source, { config })).toEqual({
        code: Code.FailedPrecondition,
        message: expect.stringMatching(message),
      })
    await refused('x = 1\nresult = {}["nothing"]', /^pipeline\.py line 2: KeyError: 'nothing'$/)
    await refused('result = sql("select error(\'later\') as a")', /^pipeline\.py line 1: .*later$/)
    await refused('result = [{"a": 1}]', /merge_strategy.*magic/, 'merge_strategy: magic')
    await refused('x = bytearray(1 << 40)', /MemoryError/)
    await until(workDirectories, (paths) => paths.length === 0)
  })

  test('a Python preview beyond its time limit is ended with that reason', async () => {
    const short = await startRunner({ PYTHON_TIMEOUT: '1' })
    const slow = { 'pipeline.py': 'import time; time.sleep(60)' }
    expect(await previewsOf(short, service).refusalOf(slow)).toEqual({
      code: Code.FailedPrecondition,
      message: expect.stringMatching(/time limit of 1 s exceeded/),
    })
    await short.stop()
  })

  test('a Python preview stores at most a thousand log lines', async () => {
    const { logs } = await preview('for n in range(3000): print(n)\nresult = [{"a": 1}]')
    expect(logs.length).toBeLessThan(1_010)
    expect(logs.at(-2)).toMatch(
      /^\d,\d+ more log lines dropped: the log of a preview is limited to 1,000 lines and 1 MiB$/,
    )
  })

  test('a Python preview ends with its caller and blocks no SQL', async () => {
    const callers = Array.from({ length: 3 }, () => new AbortController())
    const hanging = callers.map(({ signal }) =>
      preview('import time\ntime.sleep(50)\nresult = [{"a": 1}]', { signal }).catch((error) => error),
    )
    await until(workDirectories, (paths) => paths.length >= 2)
    expect((await previews.preview({ 'pipeline.sql': 'select 1 as a' })).rows).toEqual([[1]])
    const submit = await service.attempt(
      { ...PREVIEWED, name: 'beside' },
      { 'pipeline.sql': 'select 1 as a' },
    )
    expect((await runToEnd(runner.client, submit)).facts.status).toBe(RunStatus.COMPLETED)
    for (const caller of callers) caller.abort()
    await Promise.all(hanging)
    await until(workDirectories, (paths) => paths.length === 0)
    expect((await preview('result = [{"a": 1}]')).rows).toEqual([[1]])
  })
})
