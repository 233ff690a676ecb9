import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { chmod, chown, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { changesUser } from '../../sandbox/ladder.ts'
import { InterpreterEnded } from '../interpreter/interpreter.ts'
import { ATTEMPTS, attemptsSource, REFUSED } from './test-attempts.ts'
import { DISK_ATTEMPTS, diskSource, HIDDEN_HOLDERS, PASSED_ON } from './test-disk.ts'
import { attackNeighbour, NEIGHBOUR_ATTEMPTS } from './test-neighbour.ts'
import { type Bench, openBench, stepsHere } from './testing.ts'

// Code that tries to escape from its sandbox, in every sandbox step that this machine has. REQUIRE_SANDBOXES names the steps
// that the machine must have. Python's own checks refuse some attempts before the kernel does. Those attempts also go through
// ctypes, which Python does not check, so that the kernel must refuse them.

setDefaultTimeout(60_000)

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

/** Writes to the runner without Python's channel, on the channel's descriptor, which is the last one. */
const CHANNEL_WRITER = `
import os, stat
def leads_to_runner(fd):
    try:
        mode = os.fstat(fd).st_mode
    except OSError:
        return False
    return stat.S_ISSOCK(mode) or stat.S_ISFIFO(mode)
outgoing = max(fd for fd in range(3, 64) if leads_to_runner(fd))
def say(data):
    while data:
        data = data[os.write(outgoing, data):]
`

const CALL = String.raw`b'{"call":1,"method":"ref","name":"a"}\n'`
const noAnswer = async () => ({ value: '' })
/** Larger than a pipe, so that a write reaches the closed end. */
const largeAnswer = async () => {
  await Bun.sleep(100)
  return { value: 'x'.repeat(4_000_000) }
}
const nonsense = (line: string) => `
for fd in range(3, 20):
  try: os.write(fd, b'${line}\\n')
  except OSError: pass
while True: pass`

/** The name of an attack, its source, the answer to its calls, and the reason of its end. Empty: any reason. */
const CHANNEL_ATTACKS: [string, string, () => Promise<{ value: string }>, string][] = [
  ['an invalid line', nonsense('nonsense'), noAnswer, 'protocol error: invalid message'],
  [
    'a result that lacks fields',
    nonsense('{"result":{"kind":"parquet"}}'),
    noAnswer,
    'protocol error: invalid message',
  ],
  [
    'a call without arguments',
    nonsense('{"call":1,"method":"relate"}'),
    noAnswer,
    'protocol error: invalid message',
  ],
  [
    'calls without reading answers, then an exit',
    `\nfor n in range(5000): say(${CALL})\nos._exit(0)`,
    async () => ({ value: 'x'.repeat(10_000) }),
    'protocol error: a call while another call was open',
  ],
  ['an exit before the answer', `\nsay(${CALL})\nos._exit(0)`, largeAnswer, ''],
  ['SIGKILL before the answer', `\nsay(${CALL})\nos.kill(os.getpid(), 9)`, largeAnswer, ''],
  [
    'a closed channel before the answer',
    `\nsay(${CALL})\nos.closerange(3, 64); os._exit(0)`,
    largeAnswer,
    '',
  ],
  [
    'answers that are not read',
    String.raw`
import time
for n in range(1000):
    say(b'{"call":%d,"method":"ref","name":"a"}\n' % (n + 1))
    time.sleep(0.2)`,
    async () => ({ value: 'x'.repeat(3_000_000) }),
    'protocol error: the process does not read the answers to its calls',
  ],
  ['every descriptor closed', '\nos.closerange(0, 256)\nos._exit(0)', noAnswer, ''],
  ['an endless message', "\nwhile True: say(b'x' * 65536)", noAnswer, 'output exceeds 16 MiB'],
  ['an unfinished message', `\nsay(b'{"call":1,"method":')\nos._exit(0)`, noAnswer, ''],
]

const linesOf = (lines: readonly string[]) => new Map(lines.map((line): [string, string] => JSON.parse(line)))

const attemptAll = (parent?: string) => attemptsSource({ secret, port: listening.port, parent })

const required = process.env.REQUIRE_SANDBOXES
test.skipIf(required === undefined)('the tested sandbox steps are the required ones', () =>
  expect(steps.join()).toBe(required ?? ''),
)

describe.each(steps)('hostile code in %s', (step) => {
  let bench: Bench
  beforeAll(async () => {
    bench = await openBench(step)
  })
  afterAll(() => bench.close())

  test('every attempt to escape is refused', async () => {
    const { outcome, lines } = await bench.run(attemptAll())
    expect('result' in outcome).toBe(true)
    const outcomes = linesOf(lines)
    expect([...outcomes.keys()]).toEqual(Object.keys(ATTEMPTS))
    expect([...outcomes].filter(([, said]) => !REFUSED.test(said))).toEqual([])
    expect(await readFile(secret, 'utf8')).toBe('the address of the database')
    expect((await stat(secret)).mode & 0o777).toBe(0o666 & ~process.umask())
    expect(connections).toBe(0)
  })

  test('a run that tries to escape fails without affecting the next', async () => {
    const { outcome } = await bench.run('x = 1\nopen("/etc/shadow").read()')
    const message = expect.stringMatching(/(Permission denied|No such file).*\/etc\/shadow/)
    expect(outcome).toEqual({ failed: { line: 2, message } })
    expect('result' in (await bench.run('result = [{"a": 1}]')).outcome).toBe(true)
  })

  test('the environment of Python contains nothing of the service', async () => {
    const { outcome, lines } = await bench.run('import os\nprint(sorted(os.environ))\nresult = [{"a": 1}]')
    expect('result' in outcome).toBe(true)
    expect(lines[0]).not.toContain('CANARY')
    expect(lines[0]).not.toContain('PATH')
  })

  test('Python inherits only its three pipes and their copies', async () => {
    const { lines } = await bench.run(`
import os
for fd in range(256):
    try:
        print(fd, oct(os.fstat(fd).st_mode & 0o170000))
    except OSError:
        pass
result = [{"a": 1}]`)
    // Descriptor 0 leads nowhere. Every other descriptor is a pipe or a socket to the runner.
    expect(lines.filter((line) => !/0o(140000|10000)$/.test(line))).toEqual(['0 0o20000'])
    expect(lines.length).toBeLessThanOrEqual(5)
  })

  test.each([
    ['memory', 'a = []\nwhile True:\n  a.append(bytearray(1 << 24))', /^MemoryError.*512 MB/],
    [
      'threads',
      'import threading, time\nwhile True:\n  threading.Thread(target=time.sleep, args=(60,), daemon=True).start()',
      /can't start new thread|MemoryError/,
    ],
    [
      'file size',
      'f = open("big", "wb")\nwhile True:\n  f.write(bytes(1 << 20)); f.flush()',
      /File too large/,
    ],
    ['open files', 'import os\nwhile True:\n  os.open(".", os.O_RDONLY)', /Too many open files/],
  ])('the line that exceeds a limit fails: %s', async (_, source, message) => {
    const { outcome } = await bench.run(source)
    expect(outcome).toEqual({ failed: { line: 3, message: expect.stringMatching(message) } })
  })

  test('a busy loop ends at its limit of processor time', async () => {
    const short = await openBench(step, { processLimits: { cpuSeconds: 1 } })
    await expect(short.run('while True: pass')).rejects.toThrow('processor time limit exceeded')
    await short.close()
  })

  test('a cancelled run ends even if it ignores every signal', async () => {
    const cancel = new AbortController()
    const ran = bench.run(
      'import signal\nfor s in range(1, 32):\n  try: signal.signal(s, signal.SIG_IGN)\n  except OSError: pass\nprint("on")\nwhile True: pass',
      { signal: cancel.signal, onLine: () => cancel.abort(new Error('cancelled')) },
    )
    await expect(ran).rejects.toThrow('cancelled')
  })

  test('endless printing is cut and does not end the run', async () => {
    const { outcome, lines, dropped } = await bench.run(
      'for n in range(300000): print("x" * 50)\nresult = [{"a": 1}]',
    )
    expect('result' in outcome).toBe(true)
    expect(lines.length).toBe(200)
    expect(dropped).toBe(299_800)
  })

  test('endless printing past Python ends the process', async () => {
    await expect(bench.run('import os\nwhile True: os.write(1, b"x" * 65536 + b"\\n")')).rejects.toThrow(
      'output exceeds 64 MiB',
    )
  })

  test.each(CHANNEL_ATTACKS)(
    'a protocol violation ends only its interpreter: %s',
    async (_, source, answer, how) => {
      const attack = bench.run(CHANNEL_WRITER + source, { answer })
      await expect(attack).rejects.toThrow(how === '' ? InterpreterEnded : how)
      expect('result' in (await bench.run('result = [{"a": 1}]')).outcome).toBe(true)
    },
  )

  test('a run may use threads, its directory, temporary files and asyncio', async () => {
    const { outcome } = await bench.run(`
import asyncio, os, tempfile, threading, shutil, sqlite3, json, csv, zoneinfo, random, secrets
with tempfile.TemporaryDirectory() as d:
    open(os.path.join(d, "a"), "w").write("x")
    shutil.copy(os.path.join(d, "a"), "b") if os.getuid() >= 65432 else shutil.copyfile(os.path.join(d, "a"), "b")
os.rename("b", "c")
t = threading.Thread(target=lambda: None); t.start(); t.join()
asyncio.run(asyncio.sleep(0))
zoneinfo.ZoneInfo("Europe/Berlin")
sqlite3.connect("x.db").execute("create table a (b)")
result = [{"a": secrets.token_hex(2)}]
`)
    expect('result' in outcome ? outcome.result.kind : outcome).toBe('json')
  })

  test('concurrent runs have interpreters and directories of their own', async () => {
    const leases = await Promise.all(Array.from({ length: 4 }, () => bench.interpreters.acquire()))
    expect(new Set(leases.map(({ interpreter }) => interpreter.pid)).size).toBe(4)
    expect(new Set(leases.map(({ directory }) => directory)).size).toBe(4)
    await Promise.all(leases.map((lease) => lease.release()))
  })

  test('a run reaches neither the files nor the process of another', async () => {
    expect(await attackNeighbour(bench)).toEqual(NEIGHBOUR_HOLDS)
  })

  test('concurrent runs have unguessable names, and separate users under root', async () => {
    const leases = await Promise.all([bench.interpreters.acquire(), bench.interpreters.acquire()])
    for (const { directory } of leases) expect(directory).toMatch(/\/[0-9a-f]{32}\/run$/)
    const owners = await Promise.all(leases.map(({ directories }) => stat(directories.own)))
    expect(new Set(owners.map(({ uid }) => uid)).size).toBe(changesUser(step) ? 2 : 1)
    await Promise.all(leases.map((lease) => lease.release()))
  })

  test('closed directories and chains beyond PATH_MAX are removed with their run', async () => {
    let leaseDirectory = ''
    const { outcome } = await bench.run(HOSTILE_TREE, {
      onLease: ({ directory }) => {
        leaseDirectory = dirname(directory)
      },
    })
    expect('result' in outcome).toBe(true)
    expect(await stat(leaseDirectory).catch(() => null)).toBeNull()
  })

  test.each(Object.keys(DISK_ATTEMPTS))('a directory cannot exceed its limit with %s', async (attempt) => {
    const ended = await bench.run(diskSource(attempt)).then(
      ({ outcome }) => ('failed' in outcome ? outcome.failed.message : 'NOT REFUSED'),
      (error: Error) => error.message,
    )
    expect(ended).toMatch(OVER_ITS_LIMIT)
  })

  test.each(Object.entries(HIDDEN_HOLDERS))('a run cannot make %s', async (_, source) => {
    const { outcome } = await bench.run(`${source}\nresult = [{"a": 1}]`)
    expect(outcome).toMatchObject({ result: {} })
  })

  test.if(step === 'landlock')('a run cannot pass an open file to another process', async () => {
    expect((await bench.run(PASSED_ON)).outcome).toMatchObject({ result: {} })
  })

  test('a released interpreter leaves no process and no directory', async () => {
    const lease = await bench.interpreters.acquire()
    const { pid } = lease.interpreter
    await lease.release()
    expect(await stat(lease.directory).catch(() => null)).toBeNull()
    expect(() => process.kill(-pid, 0)).toThrow('ESRCH')
  })
})

/** The message of the kernel, or of the watch. */
const OVER_ITS_LIMIT = /No space left on device|the directory of the run is full/

/** Relative calls make a chain that is longer than a path may be. The modes of mkdir() need no right to change modes. */
const HOSTILE_TREE = `
import os
home = os.open(".", os.O_RDONLY)
os.mkdir("closed", 0o300)
os.makedirs("none/inner")
open("none/inner/file", "w").write("x")
os.mkdir("none/closed", 0)
for n in range(60):
    os.mkdir("d" * 200)
    os.chdir("d" * 200)
open("deep", "w").write("x")
os.mkdir("last", 0o300)
os.fchdir(home)
result = [{"a": 1}]`

const NEIGHBOUR_HOLDS = {
  tried: Object.keys(NEIGHBOUR_ATTEMPTS).length,
  reached: [],
  attacker: 'result',
  victim: 'result',
}

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

// Only root can change its user, and only if that user can read the checkout. A suite that is not root has tested the same
// above.
const canBeUser =
  process.getuid?.() === 0 &&
  Bun.which('setpriv') !== null &&
  Bun.spawnSync(asUser('test', '-x', process.execPath, '-a', '-r', CHILD)).exitCode === 0

describe.skipIf(!canBeUser)('hostile code of a runner that is not root', () => {
  test.each(steps)('without root, every attempt to escape is refused in %s', async (step) => {
    const report = await runAsUser(step, attemptAll('os.getppid() or 1'))
    expect(report).toMatchObject({ uid: Number(USER), found: { step }, ran: { outcome: { result: {} } } })
    const outcomes = linesOf(report.ran.lines)
    expect([...outcomes.keys()]).toEqual(Object.keys(ATTEMPTS))
    expect([...outcomes].filter(([, said]) => !REFUSED.test(said))).toEqual([])
    expect(await readFile(secret, 'utf8')).toBe('the address of the database')
  })

  test.each(steps)('without root, a run reaches no other run in %s', async (step) => {
    expect(await runAsUser(step, 'neighbour')).toMatchObject({ uid: Number(USER), ran: NEIGHBOUR_HOLDS })
  })

  test.each(steps)('without root, closed directories and deep chains are removed in %s', async (step) => {
    expect(await runAsUser(step, HOSTILE_TREE)).toMatchObject({
      ran: { outcome: { result: {} } },
      leftovers: [],
    })
  })

  test.each(steps.flatMap((step) => Object.keys(DISK_ATTEMPTS).map((attempt) => [step, attempt] as const)))(
    'without root, in %s, a directory cannot exceed its limit with %s',
    async (step, attempt) => {
      const { ran } = await runAsUser(step, diskSource(attempt))
      expect(JSON.stringify(ran)).toMatch(OVER_ITS_LIMIT)
    },
  )

  async function runAsUser(step: string, source: string) {
    const temporary = join(directory, `of-user-${step}`)
    await mkdir(temporary)
    await chmod(directory, 0o755)
    await chown(temporary, Number(USER), Number(USER))
    // The runner's own process has the same user as its sandboxed child, which must not reach the runner.
    const child = Bun.spawn(asUser(process.execPath, CHILD, step, source), {
      env: { PATH: '/usr/bin:/bin', TMPDIR: temporary, HOME: temporary },
      stdout: 'pipe',
      cwd: temporary,
    })
    const report = JSON.parse(await new Response(child.stdout).text())
    const leftovers = (await readdir(temporary)).filter((name) => name.startsWith('sluice-'))
    await rm(temporary, { recursive: true })
    return { ...report, leftovers }
  }
})

test('hostile code leaves nothing outside', async () => {
  expect((await readdir(directory)).sort()).toEqual(['canary.py', 'secret.txt'])
  expect(await stat('/tmp/sluice-was-here').catch(() => null)).toBeNull()
})
