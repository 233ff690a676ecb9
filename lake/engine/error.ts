// Errors of the engine, for people and for callers that decide the next step.

type EngineErrorKind =
  /** The text is not valid SQL. */
  | 'syntax'
  /** A name or a type does not fit: tables, columns, functions, casts of constants. */
  | 'binder'
  /** The instance has used up its memory or its temporary space. The caller replaces the process. */
  | 'out_of_memory'
  /** A bug of the engine, whose instance may no longer respond. The caller replaces the process. */
  | 'broken'
  | 'interrupted'
  /** Data that does not fit, a missing file, denied access, and all other errors. */
  | 'other'

export class EngineError extends Error {
  override readonly name = 'EngineError'
  readonly kind: EngineErrorKind
  /** 1-based line of the statement, when the engine reports one. */
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
/** The bindings put this prefix before the engine's own text. */
const WRAPPER = /^Failed to extract statements: /
/** Starts the list of the engine's functions and their paths on this machine. */
const STACK_TRACE = 'Stack Trace:'

/** Converts an error of DuckDB to an `EngineError` with the same message. Returns any other error unchanged. */
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

/** Runs an engine call and converts its errors with `engineError`. */
export async function mapped<Result>(call: () => Promise<Result>): Promise<Result> {
  try {
    return await call()
  } catch (error) {
    throw engineError(error)
  }
}
