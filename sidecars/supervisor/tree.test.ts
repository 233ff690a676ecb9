import { afterEach, expect, test } from 'bun:test'
import { join } from 'node:path'
import { until } from '../../tools/kit/until.ts'
import { type ChildOptions, childProcess } from './child.ts'
import { isAlive } from './testing.ts'
import { type Part, supervise, type Tree } from './tree.ts'

const lines: string[] = []
const log = (name: string, message: string) => void lines.push(`${name}: ${message}`)
let tree: Tree | undefined

afterEach(async () => {
  await tree?.stop()
  lines.length = 0
})

const child = (name: string, code: string, more: Partial<ChildOptions> = {}) =>
  childProcess({
    name,
    command: [process.execPath, '-e', code],
    env: () => ({ PATH: process.env.PATH }),
    cwd: import.meta.dirname,
    stopDeadlineMs: 5_000,
    log,
    ...more,
  })

/** A child that logs its start, and logs again before it ends on SIGTERM. */
const polite = (name: string) =>
  child(
    name,
    `process.on('SIGTERM', () => { console.log('bye'); process.exit(0) }); setInterval(() => {}, 1e6); console.log('up')`,
  )
const isUp = (name: string) => lines.includes(`${name}: up`)

test('a dying child is restarted with growing delays, and restarts are counted', async () => {
  const failures: number[] = []
  tree = supervise([[child('fragile', 'process.exit(3)')]], {
    log,
    delayMs: (count) => {
      failures.push(count)
      return 1
    },
  })
  await tree.start()
  await until(() => (tree?.states()[0]?.restarts ?? 0) >= 3)
  expect(failures.slice(0, 3)).toEqual([1, 2, 3])
  expect(lines).toContain('sluice: fragile ended (code 3): restart 1 in 1 ms')
})

test('a killed child restarts under the same name and port', async () => {
  tree = supervise([[child('runner', `setInterval(() => {}, 1e6)`, { port: 4711 })]], { log })
  await tree.start()
  const first = tree.states()[0]?.pid ?? 0
  process.kill(first, 'SIGKILL')
  await until(() => tree?.states()[0]?.restarts === 1 && tree.states()[0]?.pid !== undefined)
  expect(tree.states()[0]).toMatchObject({ name: 'runner', port: 4711, restarts: 1 })
  expect(tree.states()[0]?.pid).not.toBe(first)
  expect(lines).toContain('sluice: runner ended (SIGKILL): restart 1')
})

test('a list of processes that cannot be written ends nothing', async () => {
  tree = supervise([[polite('one')]], {
    log,
    onChange: () => {
      throw new Error('ENOSPC: no space left on device')
    },
  })
  await tree.start()
  await until(() => isUp('one'))
  process.kill(tree.states()[0]?.pid ?? 0, 'SIGKILL')
  await until(() => tree?.states()[0]?.restarts === 1 && tree.states()[0]?.pid !== undefined)
  const problems = lines.filter((line) => line.includes('the list of processes cannot be written'))
  expect(problems).toEqual([
    'sluice: the list of processes cannot be written: ENOSPC: no space left on device',
  ])
})

test('stages stop one after another, the last stage first', async () => {
  tree = supervise([[polite('postgres')], [polite('runner'), polite('query')], [polite('api')]], { log })
  await tree.start()
  await until(() => ['postgres', 'runner', 'query', 'api'].every(isUp))
  await tree.stop()
  const goodbyes = lines.filter((line) => line.endsWith(': bye'))
  expect(goodbyes[0]).toBe('api: bye')
  expect(goodbyes.slice(1, 3).sort()).toEqual(['query: bye', 'runner: bye'])
  expect(goodbyes[3]).toBe('postgres: bye')
})

test('a child that ignores SIGTERM is killed with its own children', async () => {
  const deaf = child(
    'deaf',
    `process.on('SIGTERM', () => {})
     const inner = Bun.spawn([process.execPath, '-e', 'setInterval(() => {}, 1e6)'])
     console.log('inner ' + inner.pid)
     setInterval(() => {}, 1e6)`,
    { stopDeadlineMs: 20 },
  )
  tree = supervise([[deaf]], { log })
  await tree.start()
  await until(() => lines.some((line) => line.startsWith('deaf: inner')))
  const inner = Number(lines.find((line) => line.startsWith('deaf: inner'))?.split(' ')[2])
  const outer = tree.states()[0]?.pid ?? 0
  await tree.stop()
  await until(() => !isAlive(inner) && !isAlive(outer))
})

test('a stop during a start ends that part and starts no others', async () => {
  const gate = Promise.withResolvers<void>()
  const inner = polite('slow')
  const slow: Part = { name: 'slow', start: () => gate.promise.then(inner.start) }
  tree = supervise([[slow], [polite('later')]], { log })
  const starting = tree.start()
  const stopping = tree.stop()
  gate.resolve()
  await Promise.all([starting, stopping])
  const pid = Number(lines.find((line) => line.startsWith('slow: started, pid '))?.slice(19))
  expect(pid).toBeGreaterThan(0)
  expect(isAlive(pid)).toBe(false)
  expect(lines.some((line) => line.startsWith('later'))).toBe(false)
})

test('a second stop has no further effect', async () => {
  tree = supervise([[polite('api')]], { log })
  await tree.start()
  await until(() => isUp('api'))
  await Promise.all([tree.stop(), tree.stop()])
  expect(lines.filter((line) => line === 'api: bye')).toHaveLength(1)
})

test('a child that refuses its configuration reports why and is not restarted', async () => {
  const refusing = child('runner', `console.error('A: bad'); console.error('B: worse'); process.exit(78)`)
  tree = supervise([[refusing]], { log })
  await tree.start()
  expect(await tree.gaveUp).toEqual({ name: 'runner', reason: 'A: bad; B: worse' })
  expect(lines).toContain('runner: A: bad')
  expect(tree.states()[0]?.restarts).toBe(0)
})

test('a missing dependency ends the first start, and later causes restarts', async () => {
  const missing = () => child('api', `console.error('no store'); process.exit(69)`)
  tree = supervise([[missing()]], { log, delayMs: () => 1 })
  await tree.start()
  expect(await tree.gaveUp).toEqual({ name: 'api', reason: 'no store' })
  await tree.stop()
  tree = supervise([[missing()]], { log, wasReady: () => true, delayMs: () => 1 })
  await tree.start()
  await until(() => (tree?.states()[0]?.restarts ?? 0) >= 2)
})

test('children end when their supervisor is killed', async () => {
  const source = `
    const { supervise } = await import('${join(import.meta.dirname, 'tree.ts')}')
    const { childProcess } = await import('${join(import.meta.dirname, 'child.ts')}')
    const part = (name) => childProcess({
      name, cwd: '/', stopDeadlineMs: 1000, env: () => process.env, log: (name, message) => console.log(message),
      command: [process.execPath, '-e', \`
        const { endWithParent } = await import('${join(import.meta.dirname, '..', '..', 'ground', 'process', 'lifeline.ts')}')
        endWithParent(process.env, () => process.exit(0))
        console.log('up ' + process.pid)\`],
    })
    await supervise([[part('one'), part('two')]], { log: () => {} }).start()`
  const supervisor = Bun.spawn([process.execPath, '-e', source], { stdin: 'ignore', stdout: 'pipe' })
  let output = ''
  for await (const chunk of supervisor.stdout) {
    output += new TextDecoder().decode(chunk)
    if (output.split('\n').length > 2) break
  }
  const pids = [...output.matchAll(/up (\d+)/g)].map((match) => Number(match[1]))
  expect(pids.filter(isAlive)).toHaveLength(2)
  supervisor.kill('SIGKILL')
  await until(() => !pids.some(isAlive))
})
