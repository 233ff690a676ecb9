import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { getPriority } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { testDirectory } from '../../tools/kit/directory.ts'
import { makeLog } from '../core/log.ts'
import { silent } from '../core/testing.ts'
import type { Answers, Targets } from './attacks.child.ts'
import {
  chooseEngineSandbox,
  ENGINE_SANDBOX_STEPS_OF,
  type EngineSandboxStep,
  type EngineView,
  engineSandboxOf,
  FailedSandbox,
  NoSandbox,
} from './engine-sandbox.ts'
import { SANDBOX_MODES } from './ladder.ts'

const CHILD = fileURLToPath(new URL('./attacks.child.ts', import.meta.url))
const nothing: EngineView = { readable: [], writable: [] }

const root = testDirectory()
let targets: Omit<Targets, 'triesFiles'>
let server: ReturnType<typeof Bun.serve>
let visits = 0
beforeAll(async () => {
  for (const name of ['sibling', 'lake']) {
    await mkdir(join(root, name))
    await writeFile(join(root, name, 'rows.csv'), 'rows')
  }
  await writeFile(join(root, 'secret'), 'the secret')
  server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch() {
      visits += 1
      return new Response('the secret')
    },
  })
  targets = {
    secret: join(root, 'secret'),
    sibling: join(root, 'sibling'),
    readable: join(root, 'lake'),
    port: server.port ?? 0,
  }
})
afterAll(() => server.stop(true))

interface Attempts {
  tried: Answers
  allowed: Answers
}

/** The results of every attempt by code that has broken the engine's own lock. */
async function attemptsBehind(step: EngineSandboxStep, name: string): Promise<Attempts> {
  const directory = join(root, name)
  await mkdir(directory)
  const { promise, resolve, reject } = Promise.withResolvers<Attempts>()
  const sandbox = engineSandboxOf(step, { readable: [join(root, 'lake')], writable: [] })
  const child = Bun.spawn(sandbox.command({ entry: CHILD, directory, niceness: 0 }), {
    cwd: directory,
    env: { TZ: 'UTC' },
    stdin: 'ignore',
    stdout: 'ignore',
    stderr: 'inherit',
    serialization: 'advanced',
    ipc(message: 'ready' | Attempts, process) {
      if (message === 'ready') process.send({ ...targets, triesFiles: step === 'landlock' })
      else resolve(message)
    },
  })
  void child.exited.then((code) => reject(new Error(`it ended with ${code} ${child.signalCode}`)))
  try {
    return await promise
  } finally {
    child.kill('SIGKILL')
    await child.exited
  }
}

/** Error codes of a forbidden or missing thing. Any other code would mean that the attempt itself was wrong. */
const BY_THE_SANDBOX = /^refused: (EPERM|EACCES|EXDEV|ENOENT|1|13|18|no such call)$/

/** The attempts that were not refused as expected. */
const notRefused = (tried: Answers) =>
  Object.entries(tried).flatMap(([name, answer]) =>
    BY_THE_SANDBOX.test(answer) ? [] : [`${name}: ${answer}`],
  )

async function works(step: EngineSandboxStep): Promise<boolean> {
  // `required` accepts only this step, and throws without it.
  return step === 'landlock'
    ? chooseEngineSandbox('required', nothing, silent).then(
        () => true,
        () => false,
      )
    : true
}

const hasLandlock = process.platform === 'linux' && (await works('landlock'))

const USER = process.getuid?.() === 0 ? 65_431 : process.getuid?.()
/** Runs a command as another user if the tests run as root. */
const asUser = (...command: string[]) =>
  process.getuid?.() === 0
    ? ['setpriv', '--reuid', `${USER}`, '--regid', `${USER}`, '--clear-groups', ...command]
    : command
const canBeUser = Bun.spawnSync(asUser('test', '-r', CHILD)).exitCode === 0

test.if(Boolean(process.env.REQUIRE_SANDBOXES))('this machine supports the whole engine sandbox', () => {
  expect(hasLandlock).toBe(true)
})

describe.if(hasLandlock)('sandbox of an engine whose own lock is broken', () => {
  test('a broken engine reaches only its own directory and readable paths', async () => {
    const { tried, allowed } = await attemptsBehind('landlock', 'locked')
    expect(notRefused(tried)).toEqual([])
    expect(allowed).toEqual(ALLOWED)
    expect(await readFile(targets.secret, 'utf8')).toBe('the secret')
    expect(await readdir(targets.sibling)).toEqual(['rows.csv'])
    expect(await readdir(targets.readable)).toEqual(['rows.csv'])
    expect(visits).toBe(0)
    console.log(`  ${Object.keys(tried).length} attempts from inside an engine process were refused`)
  })

  test('a broken engine without Landlock makes only permitted system calls', async () => {
    const { tried, allowed } = await attemptsBehind('seccomp', 'filtered')
    expect(notRefused(tried)).toEqual([])
    expect(allowed).toEqual(ALLOWED)
    expect(visits).toBe(0)
  })
})

const ALLOWED: Answers = {
  'reads a readable file': 'rows',
  'writes its own directory': 'mine',
  'has capabilities': 'false',
  'may gain rights': 'false',
}

describe('choice of the engine sandbox', () => {
  test('auto chooses the strongest working sandbox and logs it', async () => {
    const lines: string[] = []
    const sandbox = await chooseEngineSandbox(
      'auto',
      nothing,
      makeLog('test', 'text', (line) => lines.push(line)),
    )
    expect(ENGINE_SANDBOX_STEPS_OF.auto).toContain(sandbox.step)
    expect(lines.join()).toContain('engine processes run')
  })

  test('SANDBOX=off chooses no sandbox and logs a warning', async () => {
    const lines: string[] = []
    const sandbox = await chooseEngineSandbox(
      'off',
      nothing,
      makeLog('test', 'text', (line) => lines.push(line)),
    )
    expect(sandbox.step).toBe('none')
    expect(lines.join()).toContain('engine processes run without a sandbox')
  })

  test('required fails when the sandbox does not work', async () => {
    // Simulates a machine on which no process can start.
    const bun = process.execPath
    process.execPath = '/bin/false'
    try {
      await expect(chooseEngineSandbox('required', nothing, silent)).rejects.toThrow(NoSandbox)
    } finally {
      process.execPath = bun
    }
    expect(SANDBOX_MODES).toEqual(['auto', 'required', 'off'])
  })
  test.if(hasLandlock)('an offered sandbox that fails is not replaced by a weaker one', async () => {
    const bun = process.execPath
    process.execPath = '/bin/false'
    try {
      const refused = chooseEngineSandbox('auto', nothing, silent)
      await expect(refused).rejects.toThrow(FailedSandbox)
      await expect(refused).rejects.toThrow(
        'engine processes cannot be confined: landlock: probe ended with code 1',
      )
    } finally {
      process.execPath = bun
    }
  })

  test.if(hasLandlock && canBeUser)(
    'an unprivileged user with a low priority can set up the sandbox',
    async () => {
      const child = Bun.spawn(['nice', '-n', '15', ...asUser(process.execPath, '-e', CHOOSE)], {
        env: { PATH: '/usr/bin:/bin' },
        cwd: '/',
        stdout: 'pipe',
      })
      expect(JSON.parse(await new Response(child.stdout).text())).toEqual({
        uid: USER,
        nice: Math.min(getPriority() + 15, LOWEST),
        step: 'landlock',
      })
    },
  )
})

/** The highest niceness of Linux. */
const LOWEST = 19

/** Chooses a sandbox for engines whose priority is higher than that of the service. */
const CHOOSE = `
  const { chooseEngineSandbox } = await import(${JSON.stringify(join(import.meta.dirname, 'engine-sandbox.ts'))})
  const silent = { info() {}, warn() {}, error() {} }
  const { step } = await chooseEngineSandbox('auto', { readable: [], writable: [] }, silent)
  console.log(JSON.stringify({ uid: process.getuid(), nice: require('node:os').getPriority(), step }))`
