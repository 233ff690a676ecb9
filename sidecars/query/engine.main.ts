// An engine process: people's queries run here and nowhere else. It has no secrets and an empty environment, and it ends
// when the query service does.
import { writeFile } from 'node:fs/promises'
import { ResultTooLarge } from '../../lake/engine/arrow.ts'
import { EngineError, engineError } from '../../lake/engine/error.ts'
import { JsonTooLarge } from '../../lake/engine/json-bytes.ts'
import { StatementRefused } from '../../lake/engine/statement.ts'
import type { AnswerOf, EngineRequest, Fault, FromEngine, RequestKind, ToEngine } from './engine-messages.ts'
import { limits } from './limits.ts'
import { QueryEngine, Unprepared } from './query-engine.ts'

/** An interrupt can fall between two statements of a call, so it is repeated until the call has ended. */
const INTERRUPT_EVERY_MS = 20
const FILE_ERROR = /^IO Error/

let engine: QueryEngine | undefined
/** Where the lake's files are. No query can name one, so an error that does is about the lake. */
let lakeDirectories: readonly string[] = []
let current: { id: number; interrupts?: ReturnType<typeof setInterval> } | undefined
/** Whether the query at work, or the last one, has decided what random numbers come next. */
let setsSeed = false
/** Resolves when nothing of the last query is left. */
let cleared: Promise<void> = Promise.resolve()
/** Of results that may still be in memory. */
let heldBytes = 0

process.on('message', (message: ToEngine) => {
  switch (message.type) {
    case 'call':
      void work(message.id, message.request)
      return
    case 'interrupt':
      if (current?.id !== message.id) return
      engine?.interrupt()
      current.interrupts ??= setInterval(() => engine?.interrupt(), INTERRUPT_EVERY_MS)
      return
  }
})
process.on('disconnect', () => process.exit(0))

// Should memory run out, it is better to lose a query than the service.
await writeFile('/proc/self/oom_score_adj', '1000').catch(() => {})
send({ type: 'ready' })

async function work(id: number, request: EngineRequest): Promise<void> {
  current = { id }
  setsSeed = false
  try {
    await cleared
    send({ type: 'answer', id, answer: await answerTo(request) })
  } catch (error) {
    heldBytes += limits.resultBytes
    send({ type: 'fault', id, fault: faultOf(error) })
  } finally {
    clearInterval(current?.interrupts)
    current = undefined
    // The answer is on its way already. An engine that cannot be cleared answers nobody else.
    if (request.kind === 'run') cleared = clear()
  }
}

async function clear(): Promise<void> {
  await opened().clear({ setsSeed })
  if (heldBytes < limits.heldBytes) return
  heldBytes = 0
  // Results are freed with their handles, which are too small to be collected for their own sake.
  Bun.gc(true)
}
process.on('unhandledRejection', () => process.exit(1))

async function answerTo(request: EngineRequest): Promise<AnswerOf<RequestKind>> {
  switch (request.kind) {
    case 'open':
      lakeDirectories = request.allowedDirectories
      engine = await QueryEngine.open(request)
      return null
    case 'check':
      return opened().check(request.sql)
    case 'run': {
      setsSeed = request.statement.setsSeed
      const answer = await opened().run(request)
      heldBytes += answer.arrow.length
      return answer
    }
  }
}

function opened(): QueryEngine {
  if (engine === undefined) throw new Error('the engine is not open')
  return engine
}

function faultOf(thrown: unknown): Fault {
  const error = engineError(thrown)
  const message = error instanceof Error ? error.message : String(error)
  if (error instanceof EngineError && error.kind === 'broken') return { kind: 'broken', message }
  if (thrown instanceof Unprepared) return { kind: 'unprepared', message }
  if (FILE_ERROR.test(message) || lakeDirectories.some((directory) => message.includes(directory)))
    return { kind: 'unreadable', message }
  if (error instanceof EngineError) return { kind: error.kind, message }
  if (thrown instanceof StatementRefused) return { kind: 'refused', message }
  const isTooLarge = thrown instanceof ResultTooLarge || thrown instanceof JsonTooLarge
  return { kind: isTooLarge ? 'too_large' : 'other', message }
}

function send(message: FromEngine): void {
  process.send?.(message)
}
