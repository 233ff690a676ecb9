import { type Static, Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import type { EngineAccess, EngineSize } from '../../lake/engine/instance.ts'
import type * as engineProcess from '../engine/engine-process.ts'
import { limits } from './limits.ts'

// What the query service and its engine processes say to each other. An engine runs other people's SQL: what it says is
// checked before it is believed. What the service says is not: it may do with an engine what it likes.

export type EngineRequest =
  /** Opens the instance and locks it. Comes first, and once. */
  | ({ kind: 'open' } & EngineSize & EngineAccess)
  /** What a text is and which tables it names; nothing runs. */
  | { kind: 'check'; sql: string }
  /** Runs a statement that has been checked, with tables defined and dropped before it. */
  | ({ kind: 'run' } & Run)

export interface Run {
  /** As `check` answered it. */
  statement: { sql: string; kind: 'select' | 'explain'; setsSeed: boolean }
  /** Where `layer.table` is found; null: nowhere. */
  catalog: string | null
  define: readonly TableView[]
  drop: readonly ViewName[]
  /** Of those that earlier queries have used, none but these may be there; null: any. */
  places: readonly Place[] | null
  rowsLimit: number
  bytesLimit: number
  /** Most bytes of JSON that the caller accepts for the answer. */
  jsonBytesMax: number
}

export interface Place {
  catalog: string
  schema: string
}

/** A table, as the engine names it. */
export interface ViewName extends Place {
  name: string
}

export interface TableView extends ViewName {
  /** A table expression. */
  from: string
}

export type RequestKind = EngineRequest['kind']

const TableReference = Type.Object({ catalog: Type.String(), schema: Type.String(), name: Type.String() })

const Checked = Type.Object({
  sql: Type.String(),
  kind: Type.Union([Type.Literal('select'), Type.Literal('explain')]),
  tables: Type.Array(TableReference),
  listsTables: Type.Boolean(),
  setsSeed: Type.Boolean(),
})
const Rows = Type.Object({
  arrow: Type.Uint8Array({ maxByteLength: limits.resultBytes }),
  /** What is made of them takes memory for each, whatever stands in it. */
  rows: Type.Integer({ minimum: 0, maximum: limits.rows }),
  truncated: Type.Boolean(),
})

const answers = {
  open: Type.Null(),
  check: Checked,
  run: Rows,
}

export type AnswerOf<Kind extends RequestKind> = Static<(typeof answers)[Kind]>
export type Answers = { [Kind in RequestKind]: AnswerOf<Kind> }

const answerChecks = {
  open: TypeCompiler.Compile(answers.open),
  check: TypeCompiler.Compile(answers.check),
  run: TypeCompiler.Compile(answers.run),
}
export const isAnswerOf = (kind: RequestKind, answer: unknown): boolean => answerChecks[kind].Check(answer)

const Fault = Type.Object({
  kind: Type.Union([
    /** The text may not be run: it does not only read. */
    Type.Literal('refused'),
    Type.Literal('syntax'),
    Type.Literal('binder'),
    Type.Literal('out_of_memory'),
    Type.Literal('too_large'),
    Type.Literal('interrupted'),
    /** The tables could not be made ready: what the engine knows of them is uncertain now. */
    Type.Literal('unprepared'),
    /** A file of the lake could not be read. */
    Type.Literal('unreadable'),
    /** The engine is at fault, and its instance is not to be used again. */
    Type.Literal('broken'),
    Type.Literal('other'),
  ]),
  message: Type.String(),
})
export type Fault = Static<typeof Fault>

/** What an engine could not do, in its own words. */
export class EngineFault extends Error {
  readonly kind: Fault['kind']
  constructor({ kind, message }: Fault) {
    super(message)
    this.kind = kind
  }
}

/** Calls come one at a time; an interrupt says which one it means. */
export type ToEngine = engineProcess.ToEngine<EngineRequest>

const FromEngine = Type.Union([
  Type.Object({ type: Type.Literal('ready') }),
  Type.Object({ type: Type.Literal('answer'), id: Type.Integer(), answer: Type.Unknown() }),
  Type.Object({ type: Type.Literal('fault'), id: Type.Integer(), fault: Fault }),
])
export type FromEngine = Static<typeof FromEngine>

const fromEngine = TypeCompiler.Compile(FromEngine)
export const isFromEngine = (message: unknown): message is FromEngine => fromEngine.Check(message)
