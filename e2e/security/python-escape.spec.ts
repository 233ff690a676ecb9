// Specification: Python pipelines. Code of a pipeline that tries to get out of its process: whatever it tries is refused,
// what it starts ends with it, and the service goes on.
import { join } from 'node:path'
import { expect, test } from '@playwright/test'
import { fresh, getJson, newPipeline, pythonOf, writeFile } from '../resources.ts'
import { requestRun } from '../runs.ts'
import { ended, expectFailed, expectHealthy, expectNothingTold, runOf } from './attempts.ts'

/** Where the service's own code is, on this machine. */
const ROOT = join(import.meta.dirname, '..', '..')

test.beforeEach(async ({ request }) => {
  const python = await pythonOf(request)
  // biome-ignore lint/suspicious/noSkippedTests: a machine without Python runs everything else
  test.skip(python === null, 'pipelines in Python cannot run on this machine')
})

/** Each is run with exec in names of its own; what it does not raise it has achieved. */
const ATTEMPTS: Record<string, string> = {
  // What the service knows
  'reads the environment of the service': 'open("/proc/%d/environ" % os.getppid()).read()',
  'reads the environment of every process':
    'must([open(p).read() for p in glob.glob("/proc/[0-9]*/environ") if str(os.getpid()) not in p])',
  'finds secrets in its own environment':
    'must([k for k in os.environ if re.search("URL|KEY|SECRET|TOKEN|PASS|CANARY|DATABASE|S3", k)])',
  'reads the password file': 'open("/etc/passwd").read()',
  'reads the shadow file': 'open("/etc/shadow").read()',
  'reads it by system call': 'check(libc.open(b"/etc/shadow", 0))',
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
  'reads the memory of its parent': 'check(libc.process_vm_readv(os.getppid(), None, 0, None, 0, 0))',
  'traces its parent': 'check(libc.ptrace(16, os.getppid(), 0, 0))',
  // Files
  'writes outside': 'open("/tmp/sluice-was-here", "w")',
  'writes beside its directory': 'open("../sluice-was-here", "w")',
  'writes into its input': 'open("../run/in/new", "w")',
  'makes a symbolic link': 'os.symlink("/etc/passwd", "link")',
  'makes a hard link': 'os.link(sys.executable, "python")',
  'makes a device': 'os.mknod("disk", 0o60600, 0x800)',
  'makes a pipe with a name': 'os.mkfifo("pipe")',
  'leaves by its directory': 'os.chdir("/"); must(os.listdir("/root") or [1])',
  'opens the terminal': 'open("/dev/tty", "w")',
  'opens shared memory': 'open("/dev/shm/sluice-was-here", "w")',
  'imports from elsewhere': 'sys.path.insert(0, "/tmp"); open("/tmp/evil.py", "w")',
  // Processes
  forks: 'os.fork()',
  'forks by system call': 'check(libc.fork())',
  'starts a shell': 'os.system("id") == 0 or refused()',
  'starts a program': 'subprocess.run(["/bin/true"], check=True)',
  'becomes a shell': 'os.execv("/bin/sh", ["sh", "-c", "true"])',
  'becomes a program with privileges': 'os.execv("/usr/bin/su", ["su"])',
  'makes a pool': 'multiprocessing.get_context("fork").Process(target=print).start()',
  'makes a daemon': 'os.fork() or os.setsid()',
  'starts a session': 'os.setsid()',
  'signals its parent': 'os.kill(os.getppid(), 0) if os.getppid() else refused()',
  'signals everybody': 'os.kill(-1, 0)',
  'signals the first process': 'os.kill(1, 0)',
  'signals by thread': 'check(libc.syscall(200, os.getppid() or 1, 0))',
  'slows others down': 'os.setpriority(os.PRIO_PROCESS, os.getppid() or 1, 19)',
  'makes itself quicker': 'os.nice(-20)',
  'raises its memory': 'resource.setrlimit(resource.RLIMIT_AS, (-1, -1))',
  'raises its time': 'resource.setrlimit(resource.RLIMIT_CPU, (-1, -1))',
  // Network
  'opens a socket': 'socket.socket()',
  'opens one of version 6': 'socket.socket(socket.AF_INET6)',
  'opens one of the machine': 'socket.socket(socket.AF_UNIX)',
  'opens a datagram socket': 'socket.socket(socket.AF_INET, socket.SOCK_DGRAM)',
  'opens a raw socket': 'socket.socket(socket.AF_PACKET, socket.SOCK_RAW)',
  'opens a netlink socket': 'socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)',
  'opens one by system call': 'check(libc.socket(2, 1, 0))',
  'opens one of the hypervisor': 'check(libc.socket(40, 1, 0))',
  'asks the metadata of the cloud': 'urllib.request.urlopen("http://169.254.169.254/", timeout=1)',
  'asks the service': 'urllib.request.urlopen("http://127.0.0.1:PORT/api/v1/namespaces", timeout=1)',
  'looks a name up': 'socket.getaddrinfo("example.com", 80)',
  // The kernel
  'uses io_uring': 'check(libc.syscall(425, 8, (ctypes.c_char * 120)()))',
  'loads a program into the kernel': 'check(libc.syscall(321, 0, (ctypes.c_char * 72)(), 72))',
  'handles page faults': 'check(libc.syscall(323, 1))',
  'makes namespaces': 'check(libc.unshare(0x10000000))',
  mounts: 'check(libc.mount(b"none", b".", b"tmpfs", 0, None))',
  'changes its root': 'os.chroot(".")',
  'becomes root': 'os.setresuid(0, 0, 0); must([1] if os.getuid() == 0 else [])',
  'lives on without its parent': 'check(libc.prctl(1, 0, 0, 0, 0))',
  'lets itself be traced': 'check(libc.prctl(4, 1, 0, 0, 0))',
  // The engine, and what the service gives it
  'reads a file by SQL': 'sql("select * from read_text(\'/etc/passwd\')").fetchall()',
  'lists files by SQL': 'sql("select * from glob(\'/**\')").fetchall()',
  'writes by SQL': 'sql("copy (select 1) to \'/tmp/sluice-was-here.csv\'")',
  'sets by SQL': 'sql("set memory_limit = \'100GB\'")',
  'says two things in SQL': 'sql("select 1; select 2").fetchall()',
  'reads what is not a table': 'ref("../../etc/passwd")',
  'reads what is not a zone': 'landing_zone("../../secrets")',
  'asks past the functions it was given': 'import interpreter; interpreter.REFUSED.clear(); os.fork()',
}

const source = (port: string) => `
import ctypes, errno, glob, json, multiprocessing, os, re, resource, socket, subprocess, sys, urllib.request
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
  // An attempt with a mistake of its own would be refused by Python itself.
  expect(lines.filter((line) => /\| (Name|Syntax|Type|Attribute|Index|Key)Error/.test(line))).toEqual([])
  expect(lines.filter((line) => line.startsWith('REFUSED')).length).toBe(Object.keys(ATTEMPTS).length)
  expectNothingTold(lines.join('\n'), code)
  await expectHealthy(request)
})

/** Each of these ends its run; what the run then says. */
const FATAL: [what: string, source: string, error: RegExp][] = [
  ['takes all memory', 'a = []\nwhile True: a.append(bytearray(1 << 26))', /MemoryError/],
  ['takes all memory at once', 'a = "x" * (1 << 45)', /MemoryError/],
  [
    'fills a file',
    'import os\nf = os.open("a", os.O_CREAT | os.O_RDWR)\nos.ftruncate(f, 1 << 50)',
    /OSError|File too large/,
  ],
  [
    'opens files without end',
    'import os\na = [os.open("/dev/null", 0) for _ in range(10**6)]',
    /Too many open files/,
  ],
  [
    'starts threads without end',
    'import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(60,), daemon=True).start()',
    /can't start new thread/,
  ],
  ['crashes', 'import ctypes\nctypes.string_at(1)', /Python process is gone/],
  ['ends without a word', 'import os\nos._exit(0)', /Python process is gone/],
  ['kills itself', 'import os\nos.kill(os.getpid(), 9)', /Python process is gone/],
  ['recurses', 'def a(): a()\na()', /RecursionError/],
  [
    'closes what it speaks through',
    'import os\nos.closerange(0, 200)',
    /Python process is gone|OSError|Bad file/,
  ],
  [
    'speaks for the service',
    'import os\nfor n in range(1, 16):\n  try: os.write(n, b"nonsense\\n" * 3)\n  except OSError: pass',
    /Python process is gone|makes no sense|Bad file|did not set result/,
  ],
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

test(`Python that ends badly ends its run, with words: ${FATAL.length} attempts`, async ({ request }) => {
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
  'ignores every signal':
    'import signal, time\nfor s in range(1, 64):\n  try: signal.signal(s, signal.SIG_IGN)\n  except (OSError, ValueError): pass\nprint("on")\nwhile True: time.sleep(1)',
  'holds on to everything':
    'import threading, time\nprint("on")\nfor _ in range(20): threading.Thread(target=time.sleep, args=(10**6,)).start()\ntime.sleep(10**6)',
  'prints without end': 'print("on")\nwhile True: print("x" * 1000)',
  'asks the engine for ever':
    'print("on")\nsql("select sum(a.range * b.range) as n from range(1000000) a, range(1000000) b").fetchall()',
}

test(`Python that does not end is cancelled: ${Object.keys(ENDLESS).length} attempts`, async ({
  request,
}) => {
  await Promise.all(
    Object.values(ENDLESS).map(async (code) => {
      const pipeline = await newPipeline(request, { name: fresh('endless'), type: 'python' })
      await writeFile(request, `${pipeline.prefix}pipeline.py`, code)
      const id = await requestRun(request, pipeline)
      const lines = async () => (await getJson(request, `/api/v1/runs/${id}/logs`)).logs
      await expect
        .poll(async () => JSON.stringify(await lines()), { intervals: [50, 100, 200] })
        .toContain('"on"')
      const cancelled = await request.post(`/api/v1/runs/${id}/cancel`)
      expect.soft([cancelled.status(), await cancelled.text()], code).toEqual([200, expect.anything()])
      expect((await ended(request, id)).status, code).toBe('cancelled')
    }),
  )
  await expectHealthy(request)
})
