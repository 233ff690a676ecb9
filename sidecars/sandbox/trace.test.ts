import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createClient } from '@connectrpc/connect'
import { QueryService } from '../../proto/gen/sluice/query/v1/query_pb.ts'
import { testDirectory } from '../../tools/kit/directory.ts'
import { silent } from '../core/testing.ts'
import { startTestQueries } from '../query/testing.ts'
import { transportToSidecar } from '../rpc/testing.ts'
import { openTestService, runToEnd, startRunner, type TestService } from '../runner/testing.ts'
import { chooseEngineSandbox } from './engine-sandbox.ts'

// Checks the system calls that engine processes make during a run, a preview and a query, with harmless and hostile code. Needs
// strace, which CI has. For Python interpreters see runner/python/trace.test.ts.

setDefaultTimeout(120_000)

const nothing = { readable: [], writable: [] }
const sandbox = await chooseEngineSandbox('auto', nothing, silent)
const canTrace = Bun.which('strace') !== null && sandbox.step === 'landlock'
const CALLS =
  'open,openat,openat2,creat,execve,execveat,fork,vfork,clone,clone3,socket,connect,bind,kill,tkill,pidfd_open,ptrace,landlock_restrict_self'
const HOSTILE = [
  "select * from read_text('/etc/passwd')",
  "select * from glob('/proc/*/environ')",
  "from '/etc/shadow'",
  "copy (select 1) to '/tmp/sluice-was-here.csv'",
  "attach '/tmp/sluice-was-here.db' as a",
]

const directory = testDirectory()
let service: TestService
beforeAll(async () => {
  service = await openTestService()
})
afterAll(() => service.close())

const traced = (file: string) => [
  'strace',
  '-f',
  '-qq',
  '-y',
  '-s',
  '300',
  '-e',
  `trace=${CALLS}`,
  '-o',
  file,
]

interface Did {
  /** The kernel's id of the confined process. */
  process: string
  call: string
  given: string
  result: string
}

/** Successful calls of confined processes and their threads, from their confinement on. */
async function callsInSandbox(file: string): Promise<Did[]> {
  const unfinished = new Map<string, string>()
  const processOf = new Map<string, string>()
  const done: Did[] = []
  const lines: [thread: string, text: string][] = []
  for (const line of (await readFile(file, 'utf8')).split('\n')) {
    const [, thread, text] = /^(\d+) +(.*)$/.exec(line) ?? []
    if (thread === undefined || text === undefined) continue
    const [, begun] = /^(.*) <unfinished \.\.\.>$/.exec(text) ?? []
    const [, rest] = /^<\.\.\. \w+ resumed>(.*)$/.exec(text) ?? []
    if (begun !== undefined) unfinished.set(thread, begun)
    else lines.push([thread, rest === undefined ? text : `${unfinished.get(thread) ?? ''}${rest}`])
  }
  for (const [thread, text] of lines) {
    const [, call = '', given = '', result = ''] = /^(\w+)\((.*)\) += (.+)$/.exec(text) ?? []
    if (call === 'landlock_restrict_self' && result === '0') processOf.set(thread, thread)
    const process = processOf.get(thread)
    if (process === undefined || !/^\d/.test(result)) continue
    if (/^clone/.test(call)) processOf.set(/^\d+/.exec(result)?.[0] ?? '', process)
    done.push({ process, call, given, result })
  }
  return done
}

/** Splits calls into opened files and all others. */
function judge(done: readonly Did[], allowed: readonly string[]) {
  const isAllowed = (path: string) => allowed.some((root) => path === root || path.startsWith(`${root}/`))
  const opened = done.flatMap(({ call, result }) =>
    /^open|^creat/.test(call)
      ? [/^\d+<(.*)>$/.exec(result)?.[1]?.replace(/ \(deleted\)$/, '') ?? result]
      : [],
  )
  const other = done.filter(({ call, given }) => {
    if (/^open|^creat|^landlock/.test(call)) return false
    if (/^clone/.test(call)) return !given.includes('CLONE_THREAD')
    return !(call === 'execve' && given.includes('engine-filter.preload.ts'))
  })
  return { opened, outside: opened.filter((path) => !isAllowed(path)), other }
}

/** Paths that every engine process may open, besides the paths of its service. */
const COMMON = [
  ...['/lib', '/lib64', '/usr/lib', '/usr/lib64', '/usr/local/lib', '/etc/ld.so.cache', '/etc/localtime'],
  ...['/usr/share/zoneinfo', '/dev/null', '/dev/zero', '/dev/random', '/dev/urandom'],
  ...['/sys/devices/system/cpu', '/sys/fs/cgroup', '/proc/meminfo'],
  ...[
    'sidecars',
    'ground',
    'lake',
    'proto',
    'node_modules',
    'package.json',
    'tsconfig.json',
    'bunfig.toml',
  ].map((name) => join(import.meta.dirname, '../..', name)),
  process.execPath,
]
const own = (done: readonly Did[]) => [...new Set(done.map(({ process }) => `/proc/${process}`))]

test.if(Boolean(process.env.REQUIRE_SANDBOXES))('this machine can trace sandboxed processes', () => {
  expect(canTrace).toBe(true)
})

test.if(canTrace)('engines of runs and previews open permitted files and do nothing else', async () => {
  const trace = join(directory, 'runner')
  const runner = await startRunner(
    { LAKE_DIR: service.lakeDir, PYTHON_BIN: '/nowhere/python3' },
    traced(trace),
  )
  const table = { namespace: 'default', layer: 'silver', name: 'traced' } as const
  const submit = await service.attempt(table, {
    'pipeline.sql':
      '-- @merge_strategy: incremental\n-- @unique_key: id\nselect range as id, hash(range) as b from range(100000) order by b',
    'tests/quality/one.sql': 'select count(*) from {{ this }} where id is null',
  })
  const { facts } = await runToEnd(runner.client, submit)
  expect(facts.error).toBe('')
  for (const sql of HOSTILE) {
    const failed = await runToEnd(runner.client, await service.attempt(table, { 'pipeline.sql': sql }))
    expect(failed.facts.error).not.toBe('')
  }
  const previews = createClient(QueryService, transportToSidecar(runner.url))
  for (const sql of ['select 1 as a', ...HOSTILE])
    await previews
      .previewPipeline({
        ...{ namespace: 'default', layer: 'silver', pipelineName: 'traced', type: 'sql', limit: 10n },
        files: [{ path: 'pipeline.sql', content: sql }],
        lake: await service.readMain(),
      })
      .catch(() => {})
  const { scratchDir } = runner
  await runner.stop()
  const done = await callsInSandbox(trace)
  const shown = [join(scratchDir, 'engines'), join(scratchDir, 'cache'), join(service.lakeDir, '_lake')]
  const { opened, outside, other } = judge(done, [...COMMON, ...own(done), ...shown])
  expect(outside).toEqual([])
  expect(other).toEqual([])
  expect(opened.filter((path) => path.startsWith(join(scratchDir, 'engines'))).length).toBeGreaterThan(5)
})

test.if(canTrace)('engines of queries open permitted files and do nothing else', async () => {
  const trace = join(directory, 'query')
  const queries = await startTestQueries({}, traced(trace))
  await queries.table('default.gold.routes', 'SELECT 1 AS id')
  expect((await queries.query('FROM gold.routes')).rows).toEqual([{ id: 1 }])
  for (const sql of HOSTILE) await queries.query(sql).catch(() => {})
  await queries.close()
  const done = await callsInSandbox(trace)
  const [scratch] = done.flatMap(({ result }) => /<(.*\/sluice-query-\w+)\//.exec(result)?.[1] ?? [])
  expect(scratch).toBeString()
  const shown = [join(String(scratch), 'engines'), join(String(scratch), 'lake')]
  const { opened, outside, other } = judge(done, [...COMMON, ...own(done), ...shown])
  expect(outside).toEqual([])
  expect(other).toEqual([])
  expect(opened.some((path) => path.startsWith(join(String(scratch), 'lake')))).toBe(true)
})
