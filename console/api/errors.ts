/** An answer other than 2xx, or no answer at all (`status` 0). */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    /** Seconds until another try makes sense, as the service says. */
    readonly retryAfter: number | null = null,
    options?: ErrorOptions,
  ) {
    super(message, options)
  }

  /** No answer arrived: the service or the network is down. */
  get isLost(): boolean {
    return this.status === 0
  }
}

/** The error of a response in the service's format: `{error: {code, message}}`. */
export function errorOf(status: number, body: unknown, headers: Headers | null = null): ApiError {
  const { code, message } = detailOf(body)
  const after = Number(headers?.get('retry-after') ?? Number.NaN)
  return new ApiError(status, code, message || `status ${status}`, Number.isFinite(after) ? after : null)
}

function detailOf(body: unknown): { code: string; message: string } {
  if (typeof body === 'object' && body !== null && 'error' in body) {
    const { error } = body
    if (typeof error === 'object' && error !== null && 'message' in error)
      return { code: 'code' in error ? String(error.code) : '', message: String(error.message) }
  }
  return { code: '', message: typeof body === 'string' ? body : '' }
}

export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))
