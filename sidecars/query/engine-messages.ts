import { type Static, Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import type { EngineAccess, EngineSize } from '../../lake/engine/instance.ts'
import type { Source } from '../../lake/iceberg/read/by-name.ts'
import { COMPARISONS } from '../../lake/iceberg/read/scan-filter.ts'
import type * as engineProcess from '../engine/engine-process.ts'
import { limits } from './limits.ts'

// Messages between the query service and its engine processes. An engine executes SQL of users, so the service validates every
// message of an engine. The engine does not validate the service's messages, because the service is trusted.

export type EngineRequest =
  /** Opens and locks the instance. This is the first request, and comes once. */
  | ({ kind: 'open' } & EngineSize & EngineAccess)
  /** Returns the kind of a statement and the tables it names. Executes nothing. */
  | { kind: 'check'; sql: string }
  /** Returns the filters of a checked statement on these tables. Executes nothing. */
  | ({ kind: 'plan' } & Plan)
  /** Executes a checked statement, after the definition and removal of tables. */
  | ({ kind: 'run' } & Run)

export interface Run {
  /** The statement as `check` returned it. */
  statement: { sql: string; kind: 'select' | 'explain'; setsSeed: boolean }
  /** The catalog in which `layer.table` is resolved. Null resolves such names nowhere. */
  catalog: string | null
  define: readonly TableView[]
  drop: readonly ViewName[]
  /** The only catalogs and schemas of earlier queries that may still exist. Null allows all of them. */
  places: readonly SchemaPath[] | null
  rowsLimit: number
  bytesLimit: number
  /** The maximum size of the answer as JSON, in bytes, that the caller accepts. */
  jsonBytesMax: number
}

export interface Plan extends Pick<Run, 'catalog' | 'rowsLimit'> {
  statement: Pick<Run['statement'], 'sql' | 'kind'>
  /** All tables of the statement, without rows. */
  tables: readonly TableView[]
}

export interface SchemaPath {
  catalog: string
  schema: string
}

/** A table by its name in the engine. */
export interface ViewName extends SchemaPath {
  name: string
}

export interface TableView extends ViewName, Source {
  /** The key of the stored view that the expression contains. It may read every table, and the views before it. */
  storedView?: string
}

export type RequestKind = EngineRequest['kind']

const TableReference = Type.Object({ catalog: Type.String(), schema: Type.String(), name: Type.String() })

const Checked = Type.Object({
  sql: Type.String(),
  kind: Type.Union([Type.Literal('select'), Type.Literal('explain')]),
  tables: Type.Array(TableReference),
  listsTables: Type.Boolean(),
  setsSeed: Type.Boolean(),
  isMomentary: Type.Boolean(),
})

const Column = Type.Integer({ minimum: 0 })
const Value = Type.Union([
  Type.Boolean(),
  Type.Number(),
  Type.BigInt(),
  Type.String(),
  Type.Uint8Array({ maxByteLength: limits.requestBytes }),
])
const FilterStep = Type.Union([
  Type.Object({ op: Type.Literal('any') }),
  Type.Object({
    op: Type.Literal('compare'),
    column: Column,
    comparison: Type.Union(COMPARISONS.map((comparison) => Type.Literal(comparison))),
    value: Value,
  }),
  Type.Object({
    op: Type.Literal('in'),
    column: Column,
    values: Type.Array(Value, { maxItems: limits.filterValues }),
  }),
  Type.Object({ op: Type.Union([Type.Literal('isNull'), Type.Literal('isNotNull')]), column: Column }),
  Type.Object({
    op: Type.Union([Type.Literal('and'), Type.Literal('or')]),
    count: Type.Integer({ minimum: 1 }),
  }),
])
/** For each table of the request: its filter, or null when every file may be needed. */
const Filters = Type.Array(
  Type.Union([Type.Null(), Type.Array(FilterStep, { maxItems: limits.filterSteps })]),
)
const Rows = Type.Object({
  arrow: Type.Uint8Array({ maxByteLength: limits.resultBytes }),
  /** The limit bounds the memory of the JSON, which each row costs independently of its content. */
  rows: Type.Integer({ minimum: 0, maximum: limits.rows }),
  truncated: Type.Boolean(),
})

const answers = {
  open: Type.Null(),
  check: Checked,
  plan: Filters,
  run: Rows,
}

export type AnswerOf<Kind extends RequestKind> = Static<(typeof answers)[Kind]>
export type QueryAnswers = { [Kind in RequestKind]: AnswerOf<Kind> }

const answerChecks = {
  open: TypeCompiler.Compile(answers.open),
  check: TypeCompiler.Compile(answers.check),
  plan: TypeCompiler.Compile(answers.plan),
  run: TypeCompiler.Compile(answers.run),
}
export const isAnswerOf = (kind: RequestKind, answer: unknown): boolean => answerChecks[kind].Check(answer)

const Fault = Type.Object({
  kind: Type.Union([
    /** The statement may not be executed, because it does more than read. */
    Type.Literal('refused'),
    Type.Literal('syntax'),
    Type.Literal('binder'),
    Type.Literal('out_of_memory'),
    Type.Literal('too_large'),
    Type.Literal('interrupted'),
    /** The tables could not be defined, so the engine's definitions are uncertain. */
    Type.Literal('unprepared'),
    /** A stored view does not bind to its tables. The engine has none of the request's stored views. */
    Type.Literal('view'),
    /** A file of the lake could not be read. */
    Type.Literal('unreadable'),
    /** The engine failed, and its instance must not be used again. */
    Type.Literal('broken'),
    Type.Literal('other'),
  ]),
  message: Type.String(),
})
export type Fault = Static<typeof Fault>

/** A failure that an engine reported, with the engine's message. */
export class EngineFault extends Error {
  readonly kind: Fault['kind']
  constructor({ kind, message }: Fault) {
    super(message)
    this.kind = kind
  }
}

/** The service sends one call at a time. An interrupt names the call it stops. */
export type ToEngine = engineProcess.ToEngine<EngineRequest>

const count = Type.Integer({ minimum: 0 })
/** Counters of the process (own-io.ts). */
const bytesMoved = { bytesRead: count, bytesWritten: count }

const FromEngine = Type.Union([
  Type.Object({ type: Type.Literal('ready') }),
  Type.Object({ type: Type.Literal('answer'), id: Type.Integer(), answer: Type.Unknown(), ...bytesMoved }),
  Type.Object({ type: Type.Literal('fault'), id: Type.Integer(), fault: Fault, ...bytesMoved }),
])
export type FromEngine = Static<typeof FromEngine>

const fromEngine = TypeCompiler.Compile(FromEngine)
export const isFromEngine = (message: unknown): message is FromEngine => fromEngine.Check(message)
