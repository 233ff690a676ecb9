import { type Static, Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import type { MergeStrategy } from '../../../lake/pipeline/config.ts'

// The messages between the runner and the interpreter of a pipeline. User code shares the interpreter's process, so every
// message from there is validated and limited.

/** The job of an interpreter. An interpreter executes one job. */
export type Job =
  | {
      kind: 'check'
      source: string
      logLimits: LogLimits
      memory: string
      disk: null
      isConfined: boolean
    }
  | {
      kind: 'run'
      /** Absolute path of the file in the directory of inputs. */
      source: string
      variables: Variables
      logLimits: LogLimits
      /** The memory limit for people: `1 GiB`. */
      memory: string
      /** The limit of its directory for people, such as `1 GiB`. Null if the kernel does not enforce the limit. */
      disk: string | null
      isConfined: boolean
    }

interface LogLimits {
  lines: number
  bytes: number
}

interface Variables {
  config: Record<string, unknown>
  this: string
  run_started_at: string
  watermark_value: string | null
  strategy: MergeStrategy
  strategies: readonly MergeStrategy[]
}

const Parameter = Type.Union([Type.Null(), Type.Object({ type: Type.String(), text: Type.String() })])
const Parameters = Type.Union([Type.Array(Parameter), Type.Record(Type.String(), Parameter)])

const call = { call: Type.Integer({ minimum: 1 }) }
const Call = Type.Union([
  Type.Object({ ...call, method: Type.Literal('ref'), name: Type.String() }),
  Type.Object({
    ...call,
    method: Type.Literal('landing_zone'),
    name: Type.String(),
    pattern: Type.Union([Type.String(), Type.Null()]),
  }),
  Type.Object({ ...call, method: Type.Literal('relate'), sql: Type.String(), params: Parameters }),
  Type.Object({
    ...call,
    method: Type.Literal('fetch'),
    relation: Type.Integer(),
    form: Type.Union([Type.Literal('json'), Type.Literal('parquet')]),
  }),
])
export type Call = Static<typeof Call>

/** A type as Python found it. `null`: the values are all None. */
export type ValueType =
  | { kind: 'null' }
  /** `isText`: the values are sent as text. `isSmall`: all values fit into 32 bits. */
  | { kind: 'scalar'; name: string; isText?: boolean; isSmall?: boolean }
  | { kind: 'decimal'; precision: number; scale: number }
  | { kind: 'list'; element: ValueType }
  | { kind: 'struct'; fields: { name: string; type: ValueType }[] }

const ValueType = Type.Recursive((This) =>
  Type.Union([
    Type.Object({ kind: Type.Literal('null') }),
    Type.Object({
      kind: Type.Literal('scalar'),
      name: Type.Union(
        [
          'BOOLEAN',
          'BIGINT',
          'HUGEINT',
          'DOUBLE',
          'VARCHAR',
          'BLOB',
          'DATE',
          'TIME',
          'TIMESTAMP',
          'TIMESTAMP WITH TIME ZONE',
          'UUID',
        ].map((name) => Type.Literal(name)),
      ),
      isText: Type.Optional(Type.Boolean()),
      isSmall: Type.Optional(Type.Boolean()),
    }),
    Type.Object({
      kind: Type.Literal('decimal'),
      precision: Type.Integer({ minimum: 1, maximum: 38 }),
      scale: Type.Integer({ minimum: 0, maximum: 38 }),
    }),
    Type.Object({ kind: Type.Literal('list'), element: This }),
    Type.Object({
      kind: Type.Literal('struct'),
      fields: Type.Array(Type.Object({ name: Type.String(), type: This }), { minItems: 1 }),
    }),
  ]),
)

const count = Type.Integer({ minimum: 0 })
/** 1-based line of pipeline.py; null if unknown. */
const line = Type.Union([Type.Integer({ minimum: 1 }), Type.Null()])
const Result = Type.Union([
  /** `line`: the call of sql(). For all other results, the line that sets `result`. */
  Type.Object({ kind: Type.Literal('relation'), relation: Type.Integer(), line }),
  /** A result without rows, and so without types. */
  Type.Object({ kind: Type.Literal('empty'), columns: Type.Array(Type.String()), line }),
  Type.Object({
    kind: Type.Literal('json'),
    line,
    columns: Type.Array(Type.Object({ name: Type.String(), type: ValueType }), { minItems: 1 }),
    rows: count,
    longestBytes: count,
  }),
  Type.Object({
    kind: Type.Literal('parquet'),
    line,
    rows: count,
    /** Columns with neither a type nor a value. */
    nullColumns: Type.Array(Type.String()),
  }),
])
export type Result = Static<typeof Result>
export type JsonResult = Extract<Result, { kind: 'json' }>

const Failure = Type.Object({ line, message: Type.String() })

/** `column`: 1-based; null if unknown. */
const SyntaxFailure = Type.Composite([Failure, Type.Object({ column: line })])

/** A query whose text can be read from the source. */
const WrittenQuery = Type.Object({
  /** The line where the text of the query begins. */
  line: Type.Integer({ minimum: 1 }),
  /** Whether each line of the query is a line of the source. */
  isInPlace: Type.Boolean(),
  pieces: Type.Array(
    Type.Object({
      kind: Type.Union([
        Type.Literal('text'),
        Type.Literal('ref'),
        Type.Literal('landing_zone'),
        Type.Literal('this'),
      ]),
      value: Type.String(),
    }),
  ),
})
export type WrittenQuery = Static<typeof WrittenQuery>

const Level = Type.Union([
  Type.Literal('debug'),
  Type.Literal('info'),
  Type.Literal('warn'),
  Type.Literal('error'),
])
const FromInterpreter = Type.Union([
  Type.Object({ ready: Type.Literal(true) }),
  Type.Object({ unavailable: Type.String() }),
  Type.Object({ log: Level, message: Type.String() }),
  Type.Object({ dropped: count }),
  Type.Object({ result: Result }),
  Type.Object({ failed: Failure }),
  Type.Object({ checked: Type.Union([Type.Null(), SyntaxFailure]), queries: Type.Array(WrittenQuery) }),
])
export type FromInterpreter = Static<typeof FromInterpreter>

/** The last message of an interpreter. */
export type Outcome = Extract<
  FromInterpreter,
  { result: unknown } | { failed: unknown } | { checked: unknown }
>

const message = TypeCompiler.Compile(Type.Union([Call, FromInterpreter]))

/** Parses one line of the interpreter; null for an invalid message. */
export function readMessage(line: string): Call | FromInterpreter | null {
  try {
    const value: unknown = JSON.parse(line)
    return message.Check(value) ? value : null
  } catch {
    return null
  }
}
