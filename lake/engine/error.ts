/** What went wrong inside the engine, for people and for those who decide what happens next. */

export type EngineErrorKind =
  /** The text is no SQL. */
  | 'syntax'
  /** A name or a type that does not fit: tables, columns, functions, casts of constants. */
  | 'binder'
  /** The memory or the temporary space of the instance is used up: replace the process. */
  | 'out_of_memory'
  /** A mistake of the engine's own; its instance may answer nothing more: replace the process. */
  | 'broken'
  | 'interrupted'
  /** Data that does not fit, a file that is not there, access that is locked, and the rest. */
  | 'other'

export class EngineError extends Error {
  override readonly name = 'EngineError'
  readonly kind: EngineErrorKind
  /** 1-based line of the statement, where the engine says one. */
  readonly line: number | undefined

  constructor(kind: EngineErrorKind, message: string, line?: number, options?: ErrorOptions) {
    super(message, options)
    this.kind = kind
    this.line = line
  }
}

const KIND_OF_PREFIX: Readonly<Record<string, EngineErrorKind>> = {
  'Parser Error': 'syntax',
  'Syntax Error': 'syntax',
  'Binder Error': 'binder',
  'Catalog Error': 'binder',
  'Out of Memory Error': 'out_of_memory',
  'INTERRUPT Error': 'interrupted',
  'INTERNAL Error': 'broken',
  'FATAL Error': 'broken',
}

const MESSAGE_CHARACTERS = 4_000
/** Errors that the bindings wrap, before the engine's own text. */
const WRAPPER = /^Failed to extract statements: /
/** Begins with what names the engine's code and where that is on this machine. */
const STACK_TRACE = 'Stack Trace:'

/** What DuckDB threw as an `EngineError` with its own message; anything else stays what it is. */
export function engineError(error: unknown): unknown {
  if (error instanceof EngineError || !(error instanceof Error)) return error
  const message = error.message.replace(WRAPPER, '').slice(0, MESSAGE_CHARACTERS)
  const prefix = /^([A-Za-z][A-Za-z ]*? Error): /.exec(message)?.[1]
  if (prefix === undefined) return error
  const line = /^LINE (\d+): /m.exec(message)?.[1]
  const kind = KIND_OF_PREFIX[prefix] ?? 'other'
  if (kind === 'broken')
    return new EngineError(kind, (message.split(STACK_TRACE, 1)[0] ?? '').trimEnd(), undefined, {
      cause: error,
    })
  return new EngineError(kind, message, line === undefined ? undefined : Number(line), { cause: error })
}

/** Runs an engine call with its errors mapped. */
export async function mapped<Result>(call: () => Promise<Result>): Promise<Result> {
  try {
    return await call()
  } catch (error) {
    throw engineError(error)
  }
}
