/** Clients of a fleet: runs, uploads with a trigger, publishes, queries. They remember every answer for the final checks. */
import { until } from '../../kit/until.ts'

/** Loops of clients: runs of pipelines of their own, uploads, publishes and queries. */
const RUNNERS = 4
/** A client repeats a request this long, while replicas die. */
const PATIENCE_MS = 60_000
const ANSWER_LIMIT_MS = 30_000
const POLL_MS = 50

const KEPT_RUNS = 1_000_000

export const UPLOADS = 'uploads'
export const PUBLISHED = 'published'
export const SCHEDULED = 'scheduled'
const loadedOf = (n: number) => `loaded_${n}`

/** All that clients were told. */
export interface Acknowledged {
  /** By key: the run. */
  runs: Map<string, { id: string; pipeline: string }>
  /** The numbers in the uploaded files. */
  uploads: number[]
  versions: number[]
}

export interface Load {
  acknowledged: Acknowledged
  /** Requests that failed although no failure is allowed, and answers that contradict earlier ones. */
  problems: string[]
  /** Number of finished operations so far. */
  done(): number
  queries(): number
  stop(): Promise<void>
}

export interface Client {
  /** Resolves with the parsed answer. Throws for statuses other than 2xx. */
  call<Answer>(method: string, path: string, body?: object, key?: string): Promise<Answer>
}

/** `mayRepeat`: a request without an answer, or with a status from 500 on, is repeated. All requests of the load are idempotent. */
export function clientOf(url: string, mayRepeat: boolean): Client {
  async function once(method: string, path: string, body?: object, key?: string) {
    const isJson = body !== undefined && !(body instanceof FormData)
    const response = await fetch(`${url}/api/v1${path}`, {
      method,
      headers: {
        ...(isJson ? { 'content-type': 'application/json' } : {}),
        ...(key === undefined ? {} : { 'idempotency-key': key }),
      },
      body: isJson ? JSON.stringify(body) : (body as FormData | undefined),
      signal: AbortSignal.timeout(ANSWER_LIMIT_MS),
    })
    return { status: response.status, text: await response.text() }
  }
  return {
    async call<Answer>(method: string, path: string, body?: object, key?: string) {
      const giveUpAt = performance.now() + PATIENCE_MS
      for (;;) {
        const answer = await once(method, path, body, key).catch((error: unknown) => ({
          status: 599,
          text: String(error),
        }))
        if (answer.status < 300) return (answer.text === '' ? undefined : JSON.parse(answer.text)) as Answer
        if (answer.status < 500 || !mayRepeat || performance.now() > giveUpAt)
          throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`)
        await Bun.sleep(POLL_MS)
      }
    },
  }
}

/** Writes and publishes the code of a pipeline in `default.gold`. */
export async function publish(client: Client, name: string, source: string, config = '') {
  const ref = { namespace: 'default', layer: 'gold', name }
  await client.call('POST', '/pipelines', ref)
  const files = `/files/default/pipelines/gold/${name}`
  await client.call('PUT', `${files}/pipeline.sql`, { content: source })
  if (config !== '') await client.call('PUT', `${files}/config.yaml`, { content: config })
  await client.call('POST', `/pipelines/default/gold/${name}/publish`, undefined, `first ${name}`)
}

/** The pipelines, the landing zone, the trigger and the schedule of the load. */
export async function prepare(url: string): Promise<void> {
  const client = clientOf(url, false)
  // The final checks count runs, so retention must remove none.
  await client.call('PUT', '/admin/retention/config', { runs_max_per_pipeline: KEPT_RUNS })
  const append = 'merge_strategy: append_only\n'
  for (let n = 0; n < RUNNERS; n++) await publish(client, loadedOf(n), 'select 1 as n', append)
  await publish(client, SCHEDULED, 'select 1 as n', append)
  await publish(client, PUBLISHED, 'select 1 as version')
  await client.call('POST', '/landing-zones', { namespace: 'default', name: UPLOADS })
  const files = `select n from read_csv('{{ landing_zone("${UPLOADS}") }}')`
  await publish(client, UPLOADS, files, `${append}archive_landing_zones: true\n`)
  await client.call('POST', `/pipelines/default/gold/${UPLOADS}/triggers`, {
    type: 'landing_zone_upload',
    config: { namespace: 'default', zone_name: UPLOADS },
  })
  // Due only when a test says so.
  const schedule = { namespace: 'default', layer: 'gold', pipeline: SCHEDULED, cron: '0 0 1 1 *' }
  await client.call('POST', '/schedules', schedule)
}

/** The answers of all loads of one fleet, so that names and numbers stay unique. */
export const nothingAcknowledged = (): Acknowledged => ({ runs: new Map(), uploads: [], versions: [1] })

export function startLoad(url: string, mayRepeat: boolean, acknowledged: Acknowledged): Load {
  const client = clientOf(url, mayRepeat)
  const problems: string[] = []
  let isOver = false
  let done = 0
  let queries = 0
  /** Rows that the tables of the load must have at least. */
  const succeeded = new Map<number, number>()

  async function repeat(once: () => Promise<void>) {
    while (!isOver) {
      await once().catch((error: unknown) => {
        problems.push(String(error))
        return Bun.sleep(POLL_MS)
      })
      done += 1
    }
  }

  async function runOnce(n: number) {
    const pipeline = loadedOf(n)
    const key = `run ${acknowledged.runs.size} ${crypto.randomUUID()}`
    const body = { namespace: 'default', layer: 'gold', pipeline }
    const { run_id: id } = await client.call<{ run_id: string }>('POST', '/runs', body, key)
    acknowledged.runs.set(key, { id, pipeline })
    const ended = await until(
      async () => {
        await Bun.sleep(POLL_MS)
        return client.call<{ status: string; error: string | null }>('GET', `/runs/${id}`)
      },
      ({ status }) => !['pending', 'running'].includes(status),
    )
    if (ended.status !== 'success') problems.push(`run ${id}: ${ended.status}: ${ended.error}`)
    succeeded.set(n, (succeeded.get(n) ?? 0) + 1)
  }

  async function uploadOnce() {
    const n = acknowledged.uploads.length
    const form = new FormData()
    form.append('file', new Blob([`n\n${n}\n`], { type: 'text/csv' }), `file_${n}.csv`)
    await client.call('POST', `/landing-zones/default/${UPLOADS}/files`, form, `upload ${n}`)
    acknowledged.uploads.push(n)
    await Bun.sleep(POLL_MS)
  }

  async function publishOnce() {
    const next = acknowledged.versions.length + 1
    const path = `/files/default/pipelines/gold/${PUBLISHED}/pipeline.sql`
    await client.call('PUT', path, { content: `select ${next} as version` })
    const publishing = `/pipelines/default/gold/${PUBLISHED}/publish`
    const answer = await client.call<{ version: number }>('POST', publishing, undefined, `version ${next}`)
    acknowledged.versions.push(answer.version)
    await Bun.sleep(POLL_MS)
  }

  /** A query through any replica sees every run whose success was reported before, through whichever replica. */
  async function queryOnce(n: number) {
    const least = succeeded.get(n) ?? 0
    if (least === 0) return void (await Bun.sleep(POLL_MS))
    const sql = `select count(*)::int as rows from gold.${loadedOf(n)}`
    const { rows } = await client.call<{ rows: { rows: number }[] }>('POST', '/query', { sql })
    if ((rows[0]?.rows ?? 0) < least) problems.push(`${sql}: ${rows[0]?.rows} rows, expected ${least}`)
    queries += 1
  }

  let turn = 0
  const loops = [
    ...Array.from({ length: RUNNERS }, (_, n) => repeat(() => runOnce(n))),
    repeat(uploadOnce),
    repeat(publishOnce),
    repeat(() => queryOnce(turn++ % RUNNERS)),
  ]
  return {
    acknowledged,
    problems,
    done: () => done,
    queries: () => queries,
    async stop() {
      isOver = true
      await Promise.all(loops)
    },
  }
}
