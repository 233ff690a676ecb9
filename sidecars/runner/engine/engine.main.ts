// An engine process. SQL of users runs here and nowhere else. The process has no secrets and no environment, and it ends when
// the runner ends.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { EngineError } from '../../../lake/engine/error.ts'
import { quoteLiteral } from '../../../lake/quote.ts'
import { ownIo } from '../../core/own-io.ts'
import type { FromEngine, ToEngine } from '../../engine/engine-process.ts'
import { limits } from '../core/limits.ts'
import { EngineInstance } from './engine-instance.ts'
import { type EngineRequest, type Fault, RESULT } from './engine-messages.ts'
import { Refused } from './select.ts'

/** An interrupt can fall between two statements of a call, so the interrupt is repeated until the call has ended. */
const INTERRUPT_EVERY_MS = 20
const MIB = 1_048_576

const instances = new Map<number, EngineInstance>()
const interrupts = new Map<number, () => void>()
/** The base of relative paths for each open instance with a directory. The last entry applies. */
const directories = new Map<number, string>()
const home = process.cwd()
/** The last call of each instance. An instance executes one call at a time. */
const working = new Map<number, Promise<void>>()

process.on('message', (message: ToEngine<EngineRequest>) => {
  switch (message.type) {
    case 'call':
      enqueue(message.id, message.request)
      return
    case 'interrupt':
      interrupts.get(message.id)?.()
      return
  }
})
// The runner is gone. An orderly exit would wait for the running query.
process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'))

// When memory runs out, the kernel ends this process first. Losing a run is better than losing the service.
await writeFile('/proc/self/oom_score_adj', '1000').catch(() => {})
await warmUp()
send({ type: 'ready' })

function enqueue(id: number, request: EngineRequest): void {
  const { number } = request
  const turn = (working.get(number) ?? Promise.resolve()).then(() => work(id, request))
  working.set(number, turn)
  if (request.kind === 'close') void turn.then(() => working.delete(number))
}

async function work(id: number, request: EngineRequest): Promise<void> {
  let repeated: ReturnType<typeof setInterval> | undefined
  interrupts.set(id, () => {
    const instance = instances.get(request.number)
    instance?.interrupt()
    repeated ??= setInterval(() => instance?.interrupt(), INTERRUPT_EVERY_MS)
  })
  const reported = setInterval(() => {
    const percent = instances.get(request.number)?.percentDone ?? null
    send({ type: 'progress', id, percent, ...ownIo() })
  }, limits.progressMs)
  try {
    const answer = await answerTo(request)
    send({ type: 'answer', id, answer, ...ownIo() })
  } catch (error) {
    send({ type: 'fault', id, fault: faultOf(error), ...ownIo() })
  } finally {
    clearInterval(repeated)
    clearInterval(reported)
    interrupts.delete(id)
  }
}

async function answerTo(request: EngineRequest): Promise<unknown> {
  const { number } = request
  switch (request.kind) {
    case 'render':
      return (await rendering()).renderHere(request.text, request.work)
    case 'collect':
      return (await rendering()).collectHere(request, request.work)
    case 'prepare':
      instances.set(number, await EngineInstance.prepare(request))
      return null
    case 'open':
      if (request.directory !== undefined) directories.set(number, request.directory)
      enterDirectory()
      return instanceOf(number).open(request)
    case 'enter':
      return instanceOf(number).enter(request)
    case 'leave':
      return instanceOf(number).release()
    case 'define':
      return instanceOf(number).define(request)
    case 'bind':
      return instanceOf(number).bind(request)
    case 'relate':
      return instanceOf(number).relate(request)
    case 'run':
      return instanceOf(number).run(request)
    case 'query':
      return instanceOf(number).query(request)
    case 'copy':
      return instanceOf(number).copy(request)
    case 'show':
      return instanceOf(number).show(request)
    case 'look':
      return instanceOf(number).look(request)
    case 'parse':
      return instanceOf(number).parse(request)
    case 'judge':
      return instanceOf(number).judge(request)
    case 'preview':
      return instanceOf(number).preview(request)
    case 'close':
      instanceOf(number).close()
      instances.delete(number)
      directories.delete(number)
      enterDirectory()
      return null
  }
}

/** Most runs need no template engine. Loading it takes 0.1 s. */
const rendering = () => import('./rendering.ts')

/** Enters the directory of the current run, so that its files have the same names in every run. */
function enterDirectory(): void {
  process.chdir([...directories.values()].at(-1) ?? home)
}

function instanceOf(number: number): EngineInstance {
  const instance = instances.get(number)
  if (instance === undefined) throw new Error(`unknown engine instance ${number}`)
  return instance
}

function faultOf(error: unknown): Fault {
  if (error instanceof EngineError) return { kind: error.kind, message: error.message, line: error.line }
  const message = error instanceof Error ? error.message : String(error)
  return { kind: error instanceof Refused ? 'refused' : 'other', message }
}

/** The first use of the engine in a process takes 50 ms longer than later uses. */
async function warmUp(): Promise<void> {
  const directory = resolve(await mkdtemp('warm-'))
  const output = join(directory, 'up')
  const instance = await EngineInstance.prepare({
    threads: 1,
    memoryLimitBytes: 64 * MIB,
    tempLimitBytes: MIB,
  })
  await instance.open({
    tempDirectory: directory,
    allowedDirectories: [directory],
    allowedPaths: [],
    tables: [{ schema: 'warm', name: 'up', from: '(SELECT 1 AS a)' }],
  })
  await instance.define({ sql: 'SELECT a FROM warm.up' })
  await instance.copy({
    sql: `COPY (SELECT a FROM ${RESULT}) TO ${quoteLiteral(output)} (FORMAT parquet, FIELD_IDS {a: 1}, ROW_GROUPS_PER_FILE 1, RETURN_STATS)`,
  })
  await instance.judge({ sql: `FROM read_parquet(${quoteLiteral(join(output, '*'))})`, sampleRows: 1 })
  instance.close()
  await rm(directory, { recursive: true })
}

function send(message: FromEngine<Fault>): void {
  process.send?.(message)
}
