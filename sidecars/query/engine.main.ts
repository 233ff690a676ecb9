// An engine process of the query service. SQL of users is executed only in such processes. It has no secrets and an empty
// environment, and ends with the query service.
import { writeFile } from 'node:fs/promises'
import { ResultTooLarge } from '../../lake/engine/arrow.ts'
import { EngineError, engineError } from '../../lake/engine/error.ts'
import { JsonTooLarge } from '../../lake/engine/json-bytes.ts'
import { StatementRefused } from '../../lake/engine/statement.ts'
import { ownIo } from '../core/own-io.ts'
import type { AnswerOf, EngineRequest, Fault, FromEngine, RequestKind, ToEngine } from './engine-messages.ts'
import { limits } from './limits.ts'
import { QueryEngine, UnboundView, Unprepared } from './query-engine.ts'

/** An interrupt may fall between two statements of a call, so it is repeated until the call has ended. */
const INTERRUPT_EVERY_MS = 20
const FILE_ERROR = /^IO Error/

let engine: QueryEngine | undefined
/**
 * Directories of the lake's files. A query cannot name a file, so an error that names one of these directories concerns the
 * lake.
 */
let lakeDirectories: readonly string[] = []
let current: { id: number; interrupts?: ReturnType<typeof setInterval> } | undefined
/** Whether the current or last query has set the seed of random numbers. */
let setsSeed = false
/** Resolves when the state of the last query has been removed. */
let cleared: Promise<void> = Promise.resolve()
/** Bytes of results that may still be in memory. */
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

// If memory runs out, the kernel should kill an engine rather than the service.
await writeFile('/proc/self/oom_score_adj', '1000').catch(() => {})
send({ type: 'ready' })

async function work(id: number, request: EngineRequest): Promise<void> {
  current = { id }
  setsSeed = false
  try {
    await cleared
    const answer = await answerTo(request)
    send({ type: 'answer', id, answer, ...ownIo() })
  } catch (error) {
    heldBytes += limits.resultBytes
    send({ type: 'fault', id, fault: faultOf(error), ...ownIo() })
  } finally {
    clearInterval(current?.interrupts)
    current = undefined
    // The answer is already sent. An engine that cannot be cleared answers no further query.
    if (request.kind === 'run') cleared = clear()
  }
}

async function clear(): Promise<void> {
  await opened().clear({ setsSeed })
  if (heldBytes < limits.heldBytes) return
  heldBytes = 0
  // Results are freed with their handles. The handles are too small to trigger a garbage collection.
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
    case 'plan':
      return opened().plan(request)
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
  if (thrown instanceof UnboundView) return { kind: 'view', message }
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
