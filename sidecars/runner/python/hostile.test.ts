import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { chmod, chown, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Bench, openBench, stepsHere } from './testing.ts'

// Code that wants out of its sandbox, on every step of the ladder that this machine has (REQUIRE_SANDBOXES: that it must). What Python's own checks say
// first is said by the kernel as well: those attempts go through ctypes, which no check of Python's sees.

setDefaultTimeout(60_000)

const REFUSED =
  /Operation not permitted|Permission denied|a pipeline has no|sends no signals|No such file|cross-device|Read-only|not allowed to raise|No module named/

/** Opens with what every attempt may use; SECRET, DATABASE and PARENT are put in. */
const PROLOGUE = `
import ctypes, os, sys, errno
libc = ctypes.CDLL(None, use_errno=True)
def must(answer):
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer
`

const ATTEMPTS: Record<string, string> = {
  // files
  'reads a file of the service': 'result = [{"a": open(SECRET).read()}]',
  'reads it by a relative path': 'result = [{"a": open("../../../../../../../" + SECRET).read()}]',
  'reads it by system call': 'result = [{"a": must(libc.open(SECRET.encode(), 0))}]',
  'reads it by openat2':
    'result = [{"a": must(libc.syscall(437, -100, SECRET.encode(), (ctypes.c_uint64 * 3)(), 24))}]',
  'maps it': 'import mmap; result = [{"a": mmap.mmap(os.open(SECRET, os.O_RDONLY), 0)[:]}]',
  'reads the users of the machine': 'result = [{"a": open("/etc/shadow").read()}]',
  'reads the password file': 'result = [{"a": open("/etc/passwd").read()}]',
  'lists the root':
    'result = [{"a": str(os.listdir("/"))}] if "etc" in os.listdir("/") and "home" in os.listdir("/") else 1/0',
  'lists its directory among others':
    'result = [{"a": str(os.listdir(os.path.dirname(os.path.dirname(os.getcwd()))))}]',
  'lists the temporary directory': 'import tempfile; result = [{"a": str(os.listdir("/tmp"))}]',
  'writes a file of the service': 'open(SECRET, "w").write("x"); result = [{"a": 1}]',
  'shortens it': 'os.truncate(SECRET, 0); result = [{"a": 1}]',
  'removes it': 'os.unlink(SECRET); result = [{"a": 1}]',
  'renames it': 'os.rename(SECRET, "mine"); result = [{"a": 1}]',
  "makes it everybody's": 'os.chmod(SECRET, 0o777); result = [{"a": 1}]',
  'gives it away': 'os.chown(SECRET, os.getuid(), -1); result = [{"a": 1}]',
  'changes its times': 'os.utime(SECRET, (0, 0)); result = [{"a": 1}]',
  'writes into the temporary directory': 'open("/tmp/sluice-was-here", "w"); result = [{"a": 1}]',
  'writes into its input': 'open(os.path.join(INPUTS, "x"), "w"); result = [{"a": 1}]',
  'changes its own source': 'open(os.path.join(INPUTS, "pipeline.py"), "a").write("x"); result = [{"a": 1}]',
  'makes a symbolic link': 'os.symlink(SECRET, "link"); result = [{"a": open("link").read()}]',
  'makes a symbolic link by system call':
    'must(libc.symlink(SECRET.encode(), b"link")); result = [{"a": open("link").read()}]',
  'makes its result a symbolic link':
    'must(libc.symlink(SECRET.encode(), b"result.json")); result = [{"a": 1}]',
  'makes a hard link': 'os.link(SECRET, "link"); result = [{"a": open("link").read()}]',
  'makes a pipe with a name': 'os.mkfifo("pipe"); result = [{"a": 1}]',
  'makes a device': 'os.mknod("disk", 0o60666, os.makedev(254, 0)); result = [{"a": 1}]',
  'opens the disk': 'result = [{"a": str(open("/dev/vda", "rb").read(1))}]',
  'opens memory': 'result = [{"a": str(open("/dev/mem", "rb").read(1))}]',
  'opens the terminal': 'result = [{"a": str(open("/dev/tty", "rb").fileno())}]',
  'makes memory that is a file': 'result = [{"a": must(libc.syscall(319, b"x", 0))}]',
  // processes
  'reads its environment in /proc': 'result = [{"a": open("/proc/self/environ").read()}]',
  'reads the environment of its parent': 'result = [{"a": open("/proc/%d/environ" % PARENT).read()}]',
  'reads the memory of its parent': 'result = [{"a": str(open("/proc/%d/mem" % PARENT, "rb"))}]',
  'lists descriptors of its parent': 'result = [{"a": str(os.listdir("/proc/%d/fd" % PARENT))}]',
  'follows the root of its parent': 'result = [{"a": str(os.listdir("/proc/%d/root/" % PARENT))}]',
  'lists processes': 'result = [{"a": str(os.listdir("/proc"))}]',
  'traces its parent': 'result = [{"a": must(libc.ptrace(16, PARENT, 0, 0))}]',
  'reads foreign memory by system call': 'result = [{"a": must(libc.syscall(310, PARENT, 0, 0, 0, 0, 0))}]',
  'takes a descriptor of its parent':
    'result = [{"a": must(libc.syscall(438, must(libc.syscall(434, PARENT, 0)), 0, 0))}]',
  'signals its parent': 'os.kill(PARENT, 15); result = [{"a": 1}]',
  'signals its parent by system call': 'must(libc.kill(PARENT, 0)); result = [{"a": 1}]',
  'signals its process group': 'must(libc.kill(0, 15)); result = [{"a": 1}]',
  'signals everybody': 'must(libc.kill(-1, 0)); result = [{"a": 1}]',
  'has files send signals': 'import fcntl; fcntl.fcntl(2, fcntl.F_SETOWN, PARENT); result = [{"a": 1}]',
  'slows its parent down': 'os.sched_setaffinity(PARENT, {0}); result = [{"a": 1}]',
  'limits its parent':
    'import resource; resource.prlimit(PARENT, resource.RLIMIT_NOFILE, (1, 1)); result = [{"a": 1}]',
  'starts a shell':
    'import subprocess; result = [{"a": subprocess.run(["/bin/sh", "-c", "id"], capture_output=True).stdout}]',
  'calls the shell': 'result = [{"a": must(-1 if os.system("id > /dev/null") else 0)}]',
  forks: 'result = [{"a": os.fork()}]',
  'forks by system call': 'result = [{"a": must(libc.fork())}]',
  'forks by clone': 'result = [{"a": must(libc.syscall(56, 17, 0, 0, 0, 0))}]',
  'becomes another program': 'os.execv("/bin/sh", ["sh"])',
  'becomes another program by system call':
    'must(libc.execv(b"/bin/sh", (ctypes.c_char_p * 2)(b"sh", None))); result = [{"a": 1}]',
  'bombs with processes':
    'import multiprocessing as m; m.get_context("fork").Process(target=print).start(); result = [{"a": 1}]',
  // network
  'opens a socket': 'import socket; socket.socket(); result = [{"a": 1}]',
  'connects to the database': 'import socket; socket.create_connection(DATABASE, 1); result = [{"a": 1}]',
  'fetches a page':
    'import urllib.request; urllib.request.urlopen("http://%s:%d/" % DATABASE, timeout=1); result = [{"a": 1}]',
  'opens a socket by system call': 'result = [{"a": must(libc.socket(2, 1, 0))}]',
  'opens a raw socket': 'result = [{"a": must(libc.socket(17, 3, 0))}]',
  'opens a netlink socket': 'result = [{"a": must(libc.socket(16, 3, 0))}]',
  'opens a socket of the machine': 'result = [{"a": must(libc.socket(1, 1, 0))}]',
  'makes datagram sockets that can name another':
    'result = [{"a": must(libc.socketpair(1, 2, 0, (ctypes.c_int * 2)()))}]',
  'looks a name up': 'import socket; result = [{"a": socket.gethostbyname("localhost")}]',
  // the kernel
  'uses io_uring': 'result = [{"a": must(libc.syscall(425, 8, (ctypes.c_char * 120)()))}]',
  'loads a program into the kernel':
    'result = [{"a": must(libc.syscall(321, 0, (ctypes.c_char * 72)(), 72))}]',
  'watches performance': 'result = [{"a": must(libc.syscall(298, (ctypes.c_char * 120)(), 0, -1, -1, 0))}]',
  'handles page faults': 'result = [{"a": must(libc.syscall(323, 1))}]',
  'reads keys of the kernel': 'result = [{"a": must(libc.syscall(250, 0, -3, 1))}]',
  'makes namespaces': 'must(libc.unshare(0x10000000)); result = [{"a": 1}]',
  'enters namespaces': 'must(libc.setns(0, 0)); result = [{"a": 1}]',
  mounts: 'must(libc.mount(b"none", b"/tmp", b"tmpfs", 0, None)); result = [{"a": 1}]',
  'changes its root': 'must(libc.chroot(b"/")); result = [{"a": 1}]',
  'becomes root': 'must(libc.setresuid(0, 0, 0)); result = [{"a": 1}]',
  'joins groups': 'os.setgroups([0]); result = [{"a": 1}]',
  'uses 32-bit calls': 'must(libc.syscall(0x40000000 | 39)); result = [{"a": 1}]',
  'outlives the runner': 'must(libc.prctl(1, 0, 0, 0, 0)); result = [{"a": 1}]',
  'lets itself be traced': 'must(libc.prctl(4, 1, 0, 0, 0)); result = [{"a": 1}]',
  'raises its limits':
    'import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40)); result = [{"a": 1}]',
  'gets more time':
    'import resource; resource.setrlimit(resource.RLIMIT_CPU, (10**6, 10**6)); result = [{"a": 1}]',
  'types into a terminal': 'must(libc.ioctl(2, 0x5412, b"x")); result = [{"a": 1}]',
  'sets the clock': 'import time; time.clock_settime(time.CLOCK_REALTIME, 0); result = [{"a": 1}]',
  'renames the machine': 'import socket; socket.sethostname("x"); result = [{"a": 1}]',
  'shares memory with others': 'result = [{"a": must(libc.shmget(1, 4096, 0o1666))}]',
  // Python's ways around
  'takes the checks away by reloading':
    'import importlib, socket; importlib.reload(socket); socket.socket(); result = [{"a": 1}]',
  'goes through the module of the service':
    'import interpreter; interpreter.REFUSED.clear(); os.fork(); result = [{"a": 1}]',
  'goes through the classes of the interpreter':
    'wrap = [c for c in ().__class__.__base__.__subclasses__() if c.__name__ == "_wrap_close"][0]; wrap.__init__.__globals__["open"](SECRET, 0)',
  'imports from elsewhere':
    'sys.path.insert(0, os.path.dirname(SECRET)); import canary; result = [{"a": canary.a}]',
  'loads a library from elsewhere': 'ctypes.CDLL(SECRET); result = [{"a": 1}]',
}

let directory: string
let secret: string
let listening: Bun.TCPSocketListener
let connections = 0
const steps = await stepsHere()

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'sluice-canary-'))
  secret = join(directory, 'secret.txt')
  await writeFile(secret, 'the address of the database', { mode: 0o666 })
  await writeFile(join(directory, 'canary.py'), 'a = 1')
  process.env.SLUICE_CANARY = 'the key of the store'
  listening = Bun.listen({
    hostname: '127.0.0.1',
    port: 0,
    socket: { open: () => void connections++, data() {} },
  })
})
afterAll(async () => {
  delete process.env.SLUICE_CANARY
  listening.stop(true)
  await rm(directory, { recursive: true })
})

const linesOf = (lines: readonly string[]) => new Map(lines.map((line): [string, string] => JSON.parse(line)))

/** All attempts in one process, each with names of its own: what comes out of each, as a line of JSON. */
const attemptAll = (parent = String(process.pid)) => `${PROLOGUE}
import json
names = dict(
    SECRET=${JSON.stringify(secret)}, INPUTS=os.path.join(os.path.dirname(os.getcwd()), "run", "in"),
    DATABASE=("127.0.0.1", ${listening.port}), PARENT=${parent}, os=os, sys=sys, ctypes=ctypes, libc=libc, must=must,
)
for name, source in json.loads(${JSON.stringify(JSON.stringify(ATTEMPTS))}).items():
    try:
        exec(source, dict(names))
        outcome = "NOT REFUSED"
    except BaseException as error:
        outcome = type(error).__name__ + ": " + str(error)
    print(json.dumps([name, outcome]))
result = [{"done": True}]
`

const required = process.env.REQUIRE_SANDBOXES
test.skipIf(required === undefined)('every step of the ladder is tested', () =>
  expect(steps.join()).toBe(required ?? ''),
)

describe.each(steps)('in %s', (step) => {
  let bench: Bench
  beforeAll(async () => {
    bench = await openBench(step)
  })
  afterAll(() => bench.close())

  test('every attempt is refused', async () => {
    const { outcome, lines } = await bench.run(attemptAll())
    expect('result' in outcome).toBe(true)
    const outcomes = linesOf(lines)
    expect([...outcomes.keys()]).toEqual(Object.keys(ATTEMPTS))
    expect([...outcomes].filter(([, said]) => !REFUSED.test(said))).toEqual([])
    expect(await readFile(secret, 'utf8')).toBe('the address of the database')
    expect((await stat(secret)).mode & 0o777).toBe(0o666 & ~process.umask())
    expect(connections).toBe(0)
  })

  test('a run that tries to get out fails with what it tried, and the next one is as good as any', async () => {
    const { outcome } = await bench.run('x = 1\nopen("/etc/shadow").read()')
    const message = expect.stringMatching(/(Permission denied|No such file).*\/etc\/shadow/)
    expect(outcome).toEqual({ failed: { line: 2, message } })
    expect('result' in (await bench.run('result = [{"a": 1}]')).outcome).toBe(true)
  })

  test('its environment says nothing of the service', async () => {
    const { outcome, lines } = await bench.run('import os\nprint(sorted(os.environ))\nresult = [{"a": 1}]')
    expect('result' in outcome).toBe(true)
    expect(lines[0]).not.toContain('CANARY')
    expect(lines[0]).not.toContain('PATH')
  })

  test('it inherits no descriptor but its own three pipes and their copies', async () => {
    const { lines } = await bench.run(`
import os
for fd in range(256):
    try:
        print(fd, oct(os.fstat(fd).st_mode & 0o170000))
    except OSError:
        pass
result = [{"a": 1}]`)
    // 0 leads nowhere; of the others each is a pipe or a socket that leads to the runner.
    expect(lines.filter((line) => !/0o(140000|10000)$/.test(line))).toEqual(['0 0o20000'])
    expect(lines.length).toBeLessThanOrEqual(5)
  })

  test('memory that grows ends with its limit', async () => {
    const { outcome } = await bench.run('a = []\nwhile True:\n  a.append(bytearray(1 << 24))')
    expect(outcome).toEqual({ failed: { line: 3, message: expect.stringMatching(/^MemoryError.*512 MB/) } })
  })

  test('threads without end are refused', async () => {
    const { outcome } = await bench.run(
      'import threading, time\nfor n in range(100000):\n  threading.Thread(target=time.sleep, args=(60,), daemon=True).start()',
    )
    expect(outcome).toEqual({
      failed: { line: 3, message: expect.stringMatching(/can't start new thread|MemoryError/) },
    })
  })

  test('a file that grows is refused', async () => {
    const { outcome } = await bench.run(
      'with open("big", "wb") as f:\n  while True:\n    f.write(bytes(1 << 20))',
    )
    expect(outcome).toEqual({
      failed: { line: expect.any(Number), message: expect.stringMatching(/File too large/) },
    })
  })

  test('descriptors without end are refused', async () => {
    const { outcome } = await bench.run('import os\nwhile True:\n  os.open(".", os.O_RDONLY)')
    expect(outcome).toEqual({ failed: { line: 3, message: expect.stringMatching(/Too many open files/) } })
  })

  test('a busy loop ends with its processor time', async () => {
    const short = await openBench(step, { processLimits: { cpuSeconds: 1 } })
    await expect(short.run('while True: pass')).rejects.toThrow(/used up its processor time|SIGKILL/)
    await short.close()
  })

  test('a cancelled run ends although it ignores every signal', async () => {
    const cancel = new AbortController()
    const ran = bench.run(
      'import signal\nfor s in range(1, 32):\n  try: signal.signal(s, signal.SIG_IGN)\n  except OSError: pass\nprint("on")\nwhile True: pass',
      { signal: cancel.signal, onLine: () => cancel.abort(new Error('cancelled')) },
    )
    await expect(ran).rejects.toThrow('cancelled')
  })

  test('printing without end is bounded and does not end the run', async () => {
    const { outcome, lines, dropped } = await bench.run(
      'for n in range(300000): print("x" * 50)\nresult = [{"a": 1}]',
    )
    expect('result' in outcome).toBe(true)
    expect(lines.length).toBe(200)
    expect(dropped).toBe(299_800)
  })

  test('printing past Python without end ends the process', async () => {
    await expect(bench.run('import os\nwhile True: os.write(1, b"x" * 65536 + b"\\n")')).rejects.toThrow(
      'it printed too much',
    )
  })

  test('nonsense said to the runner ends the process', async () => {
    for (const line of ['nonsense', '{"result":{"kind":"parquet"}}', '{"call":1,"method":"relate"}'])
      await expect(
        bench.run(
          `import os\nfor fd in range(3, 20):\n  try: os.write(fd, b'${line}\\n')\n  except OSError: pass\nwhile True: pass`,
        ),
      ).rejects.toThrow('it said what makes no sense')
  })

  test('it may use threads, its own directory, temporary files and asyncio', async () => {
    const { outcome } = await bench.run(`
import asyncio, os, tempfile, threading, shutil, sqlite3, json, csv, zoneinfo, random, secrets
with tempfile.TemporaryDirectory() as d:
    open(os.path.join(d, "a"), "w").write("x")
    shutil.copy(os.path.join(d, "a"), "b") if os.getuid() == 65432 else shutil.copyfile(os.path.join(d, "a"), "b")
os.rename("b", "c")
t = threading.Thread(target=lambda: None); t.start(); t.join()
asyncio.run(asyncio.sleep(0))
zoneinfo.ZoneInfo("Europe/Berlin")
sqlite3.connect("x.db").execute("create table a (b)")
result = [{"a": secrets.token_hex(2)}]
`)
    expect('result' in outcome ? outcome.result.kind : outcome).toBe('json')
  })

  test('runs at one time have interpreters of their own, whether or not one was warm', async () => {
    const leases = await Promise.all(Array.from({ length: 4 }, () => bench.interpreters.take()))
    expect(new Set(leases.map(({ interpreter }) => interpreter.pid)).size).toBe(4)
    expect(new Set(leases.map(({ directory }) => directory)).size).toBe(4)
    await Promise.all(leases.map((lease) => lease.release()))
  })

  test('nothing of a run is left', async () => {
    const lease = await bench.interpreters.take()
    const { pid } = lease.interpreter
    await lease.release()
    expect(await stat(lease.directory).catch(() => null)).toBeNull()
    expect(() => process.kill(-pid, 0)).toThrow('ESRCH')
  })
})

const USER = '65431'
const CHILD = fileURLToPath(new URL('./unprivileged.child.ts', import.meta.url))
const asUser = (...command: string[]) => [
  'setpriv',
  '--reuid',
  USER,
  '--regid',
  USER,
  '--clear-groups',
  ...command,
]

// Root alone can become somebody else, and only where that one can read the checkout; a suite that is not root has
// tested just this above.
const canBeUser =
  process.getuid?.() === 0 &&
  Bun.which('setpriv') !== null &&
  Bun.spawnSync(asUser('test', '-x', process.execPath, '-a', '-r', CHILD)).exitCode === 0

describe.skipIf(!canBeUser)('of a runner that is not root', () => {
  test.each(steps)('every attempt is refused in %s', async (step) => {
    const temporary = join(directory, `of-user-${step}`)
    await mkdir(temporary)
    await chmod(directory, 0o755)
    await chown(temporary, Number(USER), Number(USER))
    // The runner's own process is of the same user there: what it must not be reached by is its own child.
    const child = Bun.spawn(asUser(process.execPath, CHILD, step, attemptAll('os.getppid() or 1')), {
      env: { PATH: '/usr/bin:/bin', TMPDIR: temporary, HOME: temporary },
      stdout: 'pipe',
      cwd: temporary,
    })
    const told = JSON.parse(await new Response(child.stdout).text())
    expect(told).toMatchObject({ uid: Number(USER), found: { step }, ran: { outcome: { result: {} } } })
    const outcomes = linesOf(told.ran.lines)
    expect([...outcomes.keys()]).toEqual(Object.keys(ATTEMPTS))
    expect([...outcomes].filter(([, said]) => !REFUSED.test(said))).toEqual([])
    expect(await readFile(secret, 'utf8')).toBe('the address of the database')
    await rm(temporary, { recursive: true })
  })
})

test('nothing was left outside', async () => {
  expect(await readdir(directory)).toEqual(['canary.py', 'secret.txt'])
  expect(await stat('/tmp/sluice-was-here').catch(() => null)).toBeNull()
})
