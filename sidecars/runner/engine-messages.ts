import { type Static, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'

// What the runner and its engine processes say to each other. An engine runs other people's SQL: what it says is
// checked before it is believed. What the runner says is not: it may do with an engine what it likes.

export type EngineRequest =
  /** Makes a fresh instance ahead of its use. */
  | {
      kind: 'prepare'
      number: number
      directory: string
      threads: number
      memoryLimitBytes: number
      tempLimitBytes: number
    }
  /** Gives a prepared instance its input and locks it: from here on it reaches its directory and `paths`, nothing else. */
  | { kind: 'open'; number: number; paths: readonly string[]; tables: readonly TableView[] }
  /** Checks that the text is one SELECT, and keeps it as the instance's result, to be written. */
  | { kind: 'define'; number: number; sql: string }
  /** Writes a projection of the result to a Parquet file. */
  | { kind: 'write'; number: number; projection: string; fieldIds: string; path: string }
  /** Runs one SELECT and reads it to its end. */
  | { kind: 'judge'; number: number; sql: string; sampleRows: number }
  | { kind: 'close'; number: number }

export type RequestKind = EngineRequest['kind']
export type RequestOf<K extends RequestKind> = Extract<EngineRequest, { kind: K }>

/** A relation of the instance, by schema and name. */
export interface TableView {
  schema: string
  name: string
  /** A table expression. */
  from: string
}

const Column = Type.Object({ name: Type.String(), type: Type.String() })
const Text = Type.Object({ key: Type.String(), value: Type.String() })

const answers = {
  prepare: Type.Null(),
  open: Type.Null(),
  define: Type.Array(Column),
  write: Type.Object({
    filename: Type.String(),
    count: Type.BigInt({ minimum: 0n }),
    file_size_bytes: Type.BigInt({ minimum: 0n }),
    column_statistics: Type.Array(Type.Object({ key: Type.String(), value: Type.Array(Text) })),
  }),
  judge: Type.Object({
    rows: Type.Integer({ minimum: 0 }),
    /** The one value of a result of one row and one numeric column, away from zero to a whole number; else null. */
    value: Type.Union([Type.BigInt(), Type.Null()]),
    samples: Type.Array(Type.String()),
  }),
  close: Type.Null(),
}

export type AnswerOf<K extends RequestKind> = Static<(typeof answers)[K]>

export const isAnswerOf = (kind: RequestKind, answer: unknown): boolean => Value.Check(answers[kind], answer)

const Fault = Type.Object({
  kind: Type.Union([
    /** The text is not what may be run here. */
    Type.Literal('refused'),
    Type.Literal('sql'),
    Type.Literal('outOfMemory'),
    Type.Literal('interrupted'),
  ]),
  message: Type.String(),
})
type Fault = Static<typeof Fault>

/** What an engine could not do, in its own words. */
export class EngineFault extends Error {
  readonly kind: Fault['kind']
  constructor({ kind, message }: Fault) {
    super(message)
    this.kind = kind
  }
}

export type ToEngine =
  | { type: 'call'; id: number; request: EngineRequest }
  | { type: 'interrupt'; id: number }

const FromEngine = Type.Union([
  Type.Object({ type: Type.Literal('ready') }),
  Type.Object({
    type: Type.Literal('answer'),
    id: Type.Integer(),
    rssBytes: Type.Number(),
    answer: Type.Unknown(),
  }),
  Type.Object({ type: Type.Literal('fault'), id: Type.Integer(), rssBytes: Type.Number(), fault: Fault }),
])
export type FromEngine = Static<typeof FromEngine>

export const isFromEngine = (message: unknown): message is FromEngine => Value.Check(FromEngine, message)
