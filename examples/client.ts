// The demo's way to the service: its public HTTP interface, as anybody would use it.

export class Refused extends Error {
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

/** Calls the API and answers its JSON; `Refused` with the service's own message for every other status. */
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

/** Does nothing where the thing is there already. */
export async function createOnce(base: string, path: string, body: object): Promise<void> {
  try {
    await call(base, 'POST', path, body)
  } catch (error) {
    if (!(error instanceof Refused && error.status === 409)) throw error
  }
}
