// Specification: Python pipelines. Code that tries to escape its process is refused. Its child processes end with it, and the
// service continues.
import { join } from 'node:path'
import { expect, test } from '@playwright/test'
import { eventually } from '../eventually.ts'
import { getJson, pipelineWith, pythonOf } from '../resources.ts'
import { requestRun } from '../runs.ts'
import { ended, expectFailed, expectHealthy, expectNothingTold, runOf } from './attempts.ts'

/** The directory of the service's code on this machine. */
const ROOT = join(import.meta.dirname, '..', '..')

test.beforeEach(async ({ request }) => {
  const python = await pythonOf(request)
  // biome-ignore lint/suspicious/noSkippedTests: a machine without Python runs everything else
  test.skip(python === null, 'pipelines in Python cannot run on this machine')
})

/**
 * Each attempt runs with exec and its own names. An attempt that raises no error has succeeded. The runner's own tests attempt
 * files, processes, sockets and system calls on each kind of sandbox.
 */
const ATTEMPTS: Record<string, string> = {
  // Knowledge of the service
  'reads the environment of the service': 'open("/proc/%d/environ" % os.getppid()).read()',
  'reads the environment of every process':
    'must([open(p).read() for p in glob.glob("/proc/[0-9]*/environ") if str(os.getpid()) not in p])',
  'finds secrets in its own environment':
    'must([k for k in os.environ if re.search("URL|KEY|SECRET|TOKEN|PASS|CANARY|DATABASE|S3", k)])',
  'reads keys of the user': 'open(os.path.expanduser("~root/.ssh/id_rsa")).read()',
  'finds other runs':
    'must([p for p in glob.glob(os.path.join(os.getcwd(), "../../*")) if os.path.dirname(os.getcwd()) not in os.path.realpath(p)])',
  'finds the database':
    'must(glob.glob("/**/postgresql.conf", recursive=False) + glob.glob(os.getcwd() + "/../../../../**/PG_VERSION", recursive=True))',
  'finds the lake': 'must(glob.glob(os.getcwd() + "/../../../../**/_lake/**", recursive=True))',
  'reads the code of the service': `must(glob.glob(${JSON.stringify(join(ROOT, '*'))}) + glob.glob("/**/sidecars/*"))`,
  'lists the processes':
    'must([p for p in os.listdir("/proc") if p.isdigit() and int(p) not in (1, 2, os.getpid())])',
  'uses descriptors that are not its own': 'must([n for n in range(6, 64) if is_open(n)])',
  'reads its memory as a file': 'open("/proc/self/mem", "rb").read(1)',
  // Files
  'writes beside its directory': 'open("../sluice-was-here", "w")',
  'leaves by its directory': 'os.chdir("/"); must(os.listdir("/root") or [1])',
  'opens shared memory': 'open("/dev/shm/sluice-was-here", "w")',
  'imports from elsewhere': 'sys.path.insert(0, "/tmp"); open("/tmp/evil.py", "w")',
  // Processes
  'becomes a program with privileges': 'os.execv("/usr/bin/su", ["su"])',
  'makes a daemon': 'os.fork() or os.setsid()',
  'starts a session': 'os.setsid()',
  'signals the first process': 'os.kill(1, 0)',
  'signals by thread': 'check(libc.syscall(200, os.getppid() or 1, 0))',
  'slows others down': 'os.setpriority(os.PRIO_PROCESS, os.getppid() or 1, 19)',
  'makes itself quicker': 'os.nice(-20)',
  // Network
  'opens one of version 6': 'socket.socket(socket.AF_INET6)',
  'opens a datagram socket': 'socket.socket(socket.AF_INET, socket.SOCK_DGRAM)',
  'opens one of the hypervisor': 'check(libc.socket(40, 1, 0))',
  'asks the metadata of the cloud': 'urllib.request.urlopen("http://169.254.169.254/", timeout=1)',
  'asks the service': 'urllib.request.urlopen("http://127.0.0.1:PORT/api/v1/namespaces", timeout=1)',
  // The engine and the functions that the service provides
  'reads a file by SQL': 'sql("select * from read_text(\'/etc/passwd\')").fetchall()',
  'lists files by SQL': 'sql("select * from glob(\'/**\')").fetchall()',
  'writes by SQL': 'sql("copy (select 1) to \'/tmp/sluice-was-here.csv\'")',
  'sets by SQL': 'sql("set memory_limit = \'100GB\'")',
  'says two things in SQL': 'sql("select 1; select 2").fetchall()',
  'reads what is not a table': 'ref("../../etc/passwd")',
  'reads what is not a zone': 'landing_zone("../../secrets")',
}

const source = (port: string) => `
import ctypes, glob, json, os, re, socket, sys, urllib.request
libc = ctypes.CDLL(None, use_errno=True)
class Refused(Exception): pass
def refused(): raise Refused("nothing came of it")
def check(answer):
    if answer < 0: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
def must(found):
    if not found: refused()
def is_open(n):
    try: os.fstat(n)
    except OSError: return False
    return True
for name, code in json.loads(${JSON.stringify(JSON.stringify(ATTEMPTS))}).items():
    try:
        exec(code.replace("PORT", "${port}"), dict(globals()))
        print("REACHED", name)
    except BaseException as error:
        # What it says is searched as well.
        print("REFUSED", name, "|", type(error).__name__, "|", repr(error)[:2000])
result = [{"done": True}]
`

test(`Python does not leave its process: ${Object.keys(ATTEMPTS).length} attempts`, async ({
  request,
  baseURL,
}) => {
  const code = source(new URL(baseURL ?? '').port)
  const run = await runOf(request, { 'pipeline.py': code }, 'python')
  const lines = run.log.map(({ message }) => message)
  expect([run.status, run.error, lines.filter((line) => line.startsWith('REACHED'))]).toEqual([
    'success',
    null,
    [],
  ])
  // An attempt with a mistake in its code would count as refused, so such errors fail the test.
  expect(lines.filter((line) => /\| (Name|Syntax|Type|Attribute|Index|Key)Error/.test(line))).toEqual([])
  expect(lines.filter((line) => line.startsWith('REFUSED')).length).toBe(Object.keys(ATTEMPTS).length)
  expectNothingTold(lines.join('\n'), code)
  await expectHealthy(request)
})

/** Each source ends its run with this error. */
const FATAL: [what: string, source: string, error: RegExp][] = [
  ['takes all memory at once', 'a = "x" * (1 << 45)', /MemoryError/],
  ['crashes', 'import ctypes\nctypes.string_at(1)', /Python process ended/],
  ['recurses', 'def a(): a()\na()', /RecursionError/],
  [
    'says it is done before it is',
    'import os\nfor n in range(1, 16):\n  try: os.write(n, b\'{"result": "/etc/passwd"}\\n\')\n  except OSError: pass\nos._exit(0)',
    /./,
  ],
  ['names a file of others as its result', 'import pathlib\nresult = pathlib.Path("/etc/passwd")', /result/],
  ['gives an endless result', 'result = (x for x in iter(int, 1))', /result/],
  [
    'shadows modules',
    'open("json.py", "w").write("raise SystemExit(7)")\nimport sys\nsys.path.insert(0, ".")\nsys.modules.clear()\nimport json',
    /pipeline\.py/,
  ],
]

test(`Python that ends badly fails its run with a message: ${FATAL.length} attempts`, async ({ request }) => {
  const all = await Promise.all(
    FATAL.map(async ([what, code, error]) => ({
      what,
      code,
      error,
      run: await runOf(request, { 'pipeline.py': code }, 'python'),
    })),
  )
  for (const { what, code, error, run } of all) expectFailed(run, `${what}: ${code}`, error)
  await expectHealthy(request)
})

const ENDLESS: Record<string, string> = {
  'is busy': 'print("on")\nwhile True: pass',
  sleeps: 'import time\nprint("on")\ntime.sleep(10**6)',
  'is busy in C': 'print("on", flush=True)\nsum(range(10**14))',
  'holds on to everything':
    'import threading, time\nprint("on")\nfor _ in range(20): threading.Thread(target=time.sleep, args=(10**6,)).start()\ntime.sleep(10**6)',
  'prints without end': 'print("on")\nwhile True: print("x" * 1000)',
  'asks the engine for ever':
    'print("on")\nsql("select sum(a.range * b.range) as n from range(1000000) a, range(1000000) b").fetchall()',
}

test(`endless Python can be cancelled: ${Object.keys(ENDLESS).length} attempts`, async ({ request }) => {
  await Promise.all(
    Object.values(ENDLESS).map(async (code) => {
      const id = await requestRun(request, await pipelineWith(request, code, { type: 'python' }))
      const lines = async () => (await getJson(request, `/api/v1/runs/${id}/logs`)).logs
      await eventually(async () => JSON.stringify(await lines())).toContain('"on"')
      const cancelled = await request.post(`/api/v1/runs/${id}/cancel`)
      expect.soft([cancelled.status(), await cancelled.text()], code).toEqual([200, expect.anything()])
      expect((await ended(request, id)).status, code).toBe('cancelled')
    }),
  )
  await expectHealthy(request)
})
