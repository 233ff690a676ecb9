import { type Static, type TSchema, Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { LAYERS } from '../../../ground/names.ts'
import type { EngineAccess, EngineSize } from '../../../lake/engine/instance.ts'
import type { TableName } from '../../../lake/engine/traceless.ts'
import type { Source } from '../../../lake/iceberg/read/by-name.ts'
import type { FromEngine } from '../../engine/engine-process.ts'
import { limits } from '../core/limits.ts'
import type { TemplateText } from './rendering.ts'

// The messages between the runner and its engine processes. An engine runs SQL of users, so its messages are validated.
// Messages of the runner are not validated, because the runner controls its engines anyway.

/** The name of the author's SELECT within its instance. */
export const RESULT = 'sluice_result'

/** The number of requests that concern no instance. */
export const NO_INSTANCE = 0

export type EngineRequest =
  /** Renders a template. `work` is what its template engine may still do. */
  | { kind: 'render'; number: typeof NO_INSTANCE; text: TemplateText; work: bigint }
  /** Collects the names that a template requests. */
  | ({ kind: 'collect'; number: typeof NO_INSTANCE; work: bigint } & Pick<
      TemplateText,
      'template' | 'variables'
    >)
  /** Makes a fresh instance in advance. */
  | ({ kind: 'prepare'; number: number } & EngineSize)
  /**
   * Gives a prepared instance its input and locks it. From then on, the instance can access only the input named here.
   * `directory` is the base of relative paths while the instance is open, for other instances too.
   */
  | ({ kind: 'open'; number: number; tables: readonly TableView[]; directory?: string } & EngineAccess)
  /**
   * Shows tables in the open instance that runs share, if none of the texts can leave anything behind. `names` are the tables
   * that the texts may name, including tables that are shown later.
   */
  | {
      kind: 'enter'
      number: number
      texts: readonly string[]
      names: readonly TableName[]
      tables: readonly TableView[]
    }
  /** Removes everything of the run from the shared instance. */
  | { kind: 'leave'; number: number }
  /** Checks that the text is one SELECT, and defines it as the instance's result, to be written. */
  | { kind: 'define'; number: number; sql: string }
  /** Checks that a query service can run the text as a view of these tables, and defines it as the instance's result. */
  | { kind: 'bind'; number: number; sql: string; tables: readonly TableName[] }
  /** Checks that the text is one SELECT, and stores it under a name. A text with parameters is stored as rows. */
  | { kind: 'relate'; number: number; name: string; sql: string; params: SqlParameters }
  /** Runs a statement that the runner wrote. */
  | { kind: 'run'; number: number; sql: string }
  /** Runs a query that the runner wrote. Its result is small and all text. */
  | { kind: 'query'; number: number; sql: string }
  /** Runs a COPY that the runner wrote and that reports the written files (RETURN_STATS). */
  | { kind: 'copy'; number: number; sql: string }
  /** Drops the result, and shows these tables from then on. Their files were named when the instance was opened. */
  | { kind: 'show'; number: number; tables: readonly TableView[] }
  /** Adds arguments to the readers in a text, so that they look at all values of their files. */
  | { kind: 'look'; number: number; sql: string; params: SqlParameters; isNewTable: boolean }
  /** Parses a text in any open instance without binding it. Returns its syntax error, and the tables that it names. */
  | { kind: 'parse'; number: number; sql: string }
  /** Runs one SELECT and reads it to its end. */
  | { kind: 'judge'; number: number; sql: string; sampleRows: number }
  /** Runs one SELECT to its end and returns the first rows. The instance must have been opened with `profilePath`. */
  | {
      kind: 'preview'
      number: number
      sql: string
      profilePath: string
      rowsLimit: number
      bytesLimit: number
    }
  | { kind: 'close'; number: number }

/** A value as text, with the engine's name of its type; null is NULL. */
export type SqlParameter = { type: string; text: string } | null
/** Values by position, or by name. */
export type SqlParameters = readonly SqlParameter[] | Readonly<Record<string, SqlParameter>>

export type RequestKind = EngineRequest['kind']
export type RequestOf<K extends RequestKind> = Extract<EngineRequest, { kind: K }>

/** A relation of the instance, by schema and name. */
export interface TableView extends TableName, Source {
  /** The key of the stored view that the expression contains. An error names it. */
  storedView?: string
}

const Column = Type.Object({ name: Type.String(), type: Type.String() })
const Text = Type.Object({ key: Type.String(), value: Type.String() })

/** A template's fault is an answer, because the engine has done its work. */
const rendering = <Result extends TSchema>(result: Result) => {
  const used = Type.BigInt({ minimum: 0n })
  const place = Type.Optional(Type.Integer({ minimum: 1 }))
  const fault = Type.Object({ text: Type.String(), line: place, column: place })
  return Type.Union([Type.Object({ result, used }), Type.Object({ fault, used })])
}
const Names = Type.Array(Type.String())
const Table = Type.Object({
  namespace: Type.String(),
  layer: Type.Union(LAYERS.map((layer) => Type.Literal(layer))),
  name: Type.String(),
})

const answers = {
  render: rendering(Type.Object({ sql: Type.String(), tables: Type.Array(Table), zones: Names })),
  collect: rendering(Type.Object({ refs: Names, zones: Names })),
  prepare: Type.Null(),
  open: Type.Null(),
  /** Whether the texts were accepted and the tables are shown. */
  enter: Type.Boolean(),
  leave: Type.Null(),
  define: Type.Array(Column),
  bind: Type.Array(Column),
  relate: Type.Array(Column),
  run: Type.Null(),
  query: Type.Array(Type.Array(Type.Union([Type.String(), Type.Null()]))),
  copy: Type.Array(
    Type.Object({
      filename: Type.String(),
      count: Type.BigInt({ minimum: 0n }),
      file_size_bytes: Type.BigInt({ minimum: 0n }),
      column_statistics: Type.Array(Type.Object({ key: Type.String(), value: Type.Array(Text) })),
    }),
  ),
  show: Type.Null(),
  look: Type.Object({
    sql: Type.String(),
    /** Lines for the log of the run. */
    notes: Type.Array(
      Type.Object({
        level: Type.Union([Type.Literal('debug'), Type.Literal('info'), Type.Literal('warn')]),
        text: Type.String(),
      }),
    ),
  }),
  parse: Type.Object({
    fault: Type.Union([
      Type.Null(),
      Type.Object({ message: Type.String(), at: Type.Optional(Type.Integer({ minimum: 0 })) }),
    ]),
    tables: Type.Array(
      Type.Object({
        catalog: Type.String(),
        schema: Type.String(),
        name: Type.String(),
        at: Type.Integer({ minimum: 0 }),
      }),
    ),
  }),
  judge: Type.Object({
    columnTypes: Type.Array(Type.String()),
    rowCount: Type.Integer({ minimum: 0 }),
    /**
     * The value as text if the result is one row with one column, cut just after `limits.valueCharacters`. Null for NULL and
     * for all other results.
     */
    first: Type.Union([Type.String(), Type.Null()]),
    /** The first rows, shown to people. */
    samples: Type.Array(Type.String()),
  }),
  preview: Type.Object({
    /** The first rows as an Arrow IPC stream. The writer counts the whole stream for the limit. */
    arrow: Type.Uint8Array({ maxByteLength: limits.previewBytes }),
    columns: Type.Array(Column),
    rowCount: Type.Integer({ minimum: 0 }),
    executeMs: Type.Number({ minimum: 0 }),
    /** The profile of the execution, as the engine wrote it. */
    profile: Type.String(),
  }),
  close: Type.Null(),
}

export type RunnerAnswers = { [K in RequestKind]: Static<(typeof answers)[K]> }
export type AnswerOf<K extends RequestKind> = RunnerAnswers[K]

const checks = Object.fromEntries(
  Object.entries(answers).map(([kind, schema]) => [kind, TypeCompiler.Compile<TSchema>(schema)]),
)

export const isAnswerOf = (kind: RequestKind, answer: unknown): boolean =>
  checks[kind]?.Check(answer) ?? false

const Fault = Type.Object({
  kind: Type.Union([
    /** The text is not allowed here. */
    Type.Literal('refused'),
    Type.Literal('syntax'),
    Type.Literal('binder'),
    Type.Literal('out_of_memory'),
    Type.Literal('broken'),
    Type.Literal('interrupted'),
    Type.Literal('other'),
  ]),
  message: Type.String(),
  /** 1-based line of the statement, if the engine reports a line. */
  line: Type.Optional(Type.Integer({ minimum: 1 })),
})
export type Fault = Static<typeof Fault>

/** A failure of an engine, in the engine's own words. */
export class EngineFault extends Error {
  readonly kind: Fault['kind']
  readonly line: number | undefined
  constructor({ kind, message, line }: Fault) {
    super(message)
    this.kind = kind
    this.line = line
  }

  /** Whether the process is unfit for another run. */
  get hasSpoilt(): boolean {
    return this.kind === 'out_of_memory' || this.kind === 'broken'
  }
}

const count = Type.Integer({ minimum: 0 })
/** Counters of the process (own-io.ts). */
const bytesMoved = { bytesRead: count, bytesWritten: count }

const FromEngineMessage = Type.Union([
  Type.Object({ type: Type.Literal('ready') }),
  Type.Object({
    type: Type.Literal('progress'),
    id: Type.Integer(),
    percent: Type.Union([Type.Number({ minimum: 0, maximum: 100 }), Type.Null()]),
    ...bytesMoved,
  }),
  Type.Object({ type: Type.Literal('answer'), id: Type.Integer(), answer: Type.Unknown(), ...bytesMoved }),
  Type.Object({ type: Type.Literal('fault'), id: Type.Integer(), fault: Fault, ...bytesMoved }),
])
const fromEngine = TypeCompiler.Compile(FromEngineMessage)

export const isFromEngine = (message: unknown): message is FromEngine<Fault> => fromEngine.Check(message)
