// The demo uses only the public HTTP interface of the service.

class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message)
  }
}

export interface Run {
  id: string
  status: 'pending' | 'running' | 'success' | 'failed' | 'cancelled'
  phase: string | null
  duration_ms: number | null
  rows_written: number | null
  error: string | null
  merged_commit: number | null
}

/**
 * Calls the API and resolves with the parsed JSON of a 2xx response. Any other status throws `Refused`, with the response text
 * in its message.
 */
export async function call<Answer>(
  base: string,
  method: string,
  path: string,
  body?: object | FormData,
): Promise<Answer> {
  const isForm = body instanceof FormData
  const response = await fetch(`${base}/api/v1${path}`, {
    method,
    headers: {
      ...(body === undefined || isForm ? {} : { 'content-type': 'application/json' }),
      ...(process.env.PLATFORM_API_KEY ? { 'x-api-key': process.env.PLATFORM_API_KEY } : {}),
    },
    body: body === undefined || isForm ? body : JSON.stringify(body),
  })
  const text = await response.text()
  if (!response.ok) throw new Refused(response.status, `${method} ${path}: ${response.status} ${text}`)
  return (text === '' ? undefined : JSON.parse(text)) as Answer
}

/** Creates a resource. Does nothing when the resource exists (status 409). */
export async function createOnce(base: string, path: string, body: object): Promise<void> {
  try {
    await call(base, 'POST', path, body)
  } catch (error) {
    if (!(error instanceof Refused && error.status === 409)) throw error
  }
}
