import { beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { chmod, chown, mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { testDirectory } from '../../../tools/kit/directory.ts'
import { changesUser, launchOf } from '../../sandbox/ladder.ts'
import { findPythons } from '../../sandbox/python.ts'
import { FIRST_USER } from '../../sandbox/users.ts'
import { Interpreter, PYTHON_ARGS } from '../interpreter/interpreter.ts'
import { attemptsSource } from './test-attempts.ts'
import { stepsHere, TEST_LIMITS, VARIABLES } from './testing.ts'

// The actual system calls of hostile code, traced from outside. The test needs strace; CI has it.

setDefaultTimeout(60_000)

const steps = Bun.which('strace') === null ? [] : await stepsHere()
const TRACED = 'open,openat,openat2,creat,prctl,execve,execveat,fork,vfork,clone,clone3,socket,connect,kill'

describe.each(steps)('hostile code traced in %s', (step) => {
  const directory = testDirectory()
  beforeAll(() => chmod(directory, 0o711))

  test('hostile code opens only allowed files, and starts and reaches nothing', async () => {
    const directories = {
      inputs: join(directory, 'run', 'in'),
      own: join(directory, 'own'),
      result: join(directory, 'result'),
    }
    await mkdir(directories.inputs, { recursive: true })
    await mkdir(directories.own)
    await writeFile(directories.result, '')
    await chmod(directories.result, 0o666)
    const user = changesUser(step) ? FIRST_USER : null
    if (user !== null) await chown(directories.own, user, user)
    const source = join(directories.inputs, 'pipeline.py')
    await writeFile(source, attemptsSource({ secret: import.meta.path, port: 1 }))
    // The machine's own Python, because others may be closed to some users.
    const { pythons } = await findPythons('/usr/bin/python3')
    const [python] = pythons
    if (python === undefined) throw new Error('there is no /usr/bin/python3')
    const { command, confinement } = launchOf(
      { step, python },
      { directories, user, limits: TEST_LIMITS, args: PYTHON_ARGS },
    )
    const trace = join(directory, 'trace')
    const interpreter = new Interpreter({
      command: ['strace', '-f', '-qq', '-s', '4096', '-e', `trace=${TRACED}`, '-o', trace, ...command],
      confinement,
      niceness: 0,
      env: { LANG: 'C.UTF-8', HOME: directories.own, TMPDIR: directories.own },
    })
    const logLimits = { lines: 1_000, bytes: 1_000_000 }
    const silent = { answer: async () => ({ error: 'no' }), log: () => {}, dropped: () => {} }
    const outcome = await interpreter.work(
      { kind: 'run', source, variables: VARIABLES, logLimits, memory: '', disk: null, isConfined: true },
      silent,
      AbortSignal.timeout(40_000),
    )
    expect('result' in outcome).toBe(true)

    const lines = (await readFile(trace, 'utf8')).split('\n')
    const confined = lines.findIndex((line) => line.includes('PR_SET_SECCOMP') && line.endsWith('= 0'))
    expect(confined).toBeGreaterThan(0)
    // Lines `<pid> call(arguments) = result` of calls that succeeded.
    const done = lines
      .slice(confined + 1)
      .map((line) => /^\d+ +(\w+)\((.*)\) += (\d+)/.exec(line))
      .filter((match) => match !== null)
    const opened = done
      .filter(([, call]) => /^open|^creat/.test(call ?? ''))
      .map(([, , given = '']) => /"([^"]*)"/.exec(given)?.[1] ?? '')
    expect(opened.length).toBeGreaterThan(1)
    const allowed = [...python.readable, directories.inputs, directories.own, '/dev/null', '/dev/urandom']
    const isAllowed = (path: string) =>
      !path.startsWith('/') || allowed.some((root) => path === root || path.startsWith(`${root}/`))
    expect(opened.filter((path) => !isAllowed(path))).toEqual([])
    expect(opened.filter((path) => path.includes('..'))).toEqual([])
    const started = done.filter(
      ([, call, given]) =>
        /^exec|fork|^clone|socket|connect|kill/.test(call ?? '') && !/CLONE_THREAD/.test(given ?? ''),
    )
    expect(started.map(([line]) => line)).toEqual([])
  })
})
