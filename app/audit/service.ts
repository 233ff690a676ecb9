// What was asked of the API, by whom and from where. Requests do not wait for it: the first entry is stored at once, those
// that come until the next insert go together.
import type { Sql } from '../../drizzle/client.ts'
import { isPassing } from '../../drizzle/errors.ts'
import type { Clock } from '../clock.ts'
import { notFound } from '../http/errors.ts'
import type { Page } from '../http/pagination.ts'
import type { NewId } from '../ids.ts'
import type { Log } from '../log.ts'
import { insertEntries, listEntries, type NewEntry } from './queries.ts'

/** Entries that wait while the database is away; those that come then are counted and lost. */
export const AUDIT_QUEUE_MAX = 10_000
/** Entries one insert stores. */
const BATCH = 500
/** Of each text: an address may be as long as a server takes. */
const TEXT_LENGTH = 2_048
/** Between two inserts, while entries keep coming: each is a commit that others wait for. */
const PACE_MS = 50
/** Until the next try, and tries of what fails for a reason that does not pass by itself. */
const RETRY_MS = 500
const TRIES = 3
/** What a reader, and the end of the process, wait for entries at most. */
const CATCH_UP_MS = 1_000
const STOP_MS = 2_000

const ACTIONS: Record<string, string> = { POST: 'post', PUT: 'put', DELETE: 'delete' }
const AUDITED = '/api/v1/'

export interface AuditedRequest {
  /** In upper case. */
  method: string
  /** Without its query. */
  path: string
  userId: string
  /** Of the client; asked for only when the request is recorded. */
  ip(): string
}

/** Notes that a request was answered, if it is one that is recorded. Never throws and never waits. */
export type RecordRequest = (request: AuditedRequest) => void

export interface AuditService {
  record: RecordRequest
  /** Newest first; what this process has answered before is there. 404 when the log is switched off. */
  list(page: Page): ReturnType<typeof listEntries>
  /** Stores what is left, for two seconds at most. */
  stop(): Promise<void>
}

/** The audit log when it is switched off. */
export const noAudit: AuditService = {
  record() {},
  list: async () => {
    throw notFound('audit log')
  },
  async stop() {},
}

type Waiting = Omit<NewEntry, 'ageMs'> & { at: number }

export function makeAuditService({
  sql,
  lists,
  clock,
  newId,
  log,
}: {
  sql: Sql
  /** For what may take its time: entries must not wait behind it, or they are lost. */
  lists: Sql
  clock: Clock
  newId: NewId
  log: Log
}): AuditService {
  /** The first ones are on their way; they leave when they are stored. */
  const queue: Waiting[] = []
  let isStopping = false
  let writing: Promise<void> | null = null
  let recorded = 0
  let settled = 0
  let batchEnded = Promise.withResolvers<void>()
  /** Ends the pause between two inserts: somebody waits for the entries. */
  let hurry = () => {}
  /** Entries had to wait for the database: their own time counts then, not that of the insert. */
  let isLate = false
  let lost = 0

  function record({ method, path, userId, ip }: AuditedRequest) {
    const action = ACTIONS[method]
    if (action === undefined || !`${path}/`.startsWith(AUDITED)) return
    if (queue.length >= AUDIT_QUEUE_MAX) {
      if (lost++ === 0) log.warn(`more than ${AUDIT_QUEUE_MAX} audit entries wait; what comes now is lost`)
      return
    }
    recorded++
    queue.push({
      id: newId(),
      at: clock.elapsed(),
      userId: storable(userId),
      action,
      resource: storable(withoutToken(path)),
      ip: ip(),
    })
    writing ??= write()
  }

  async function write() {
    // Requests that end in the same moment go together.
    await Promise.resolve()
    while (queue.length > 0) {
      const batch = queue.slice(0, BATCH)
      await store(batch)
      queue.splice(0, batch.length)
      settled += batch.length
      batchEnded.resolve()
      batchEnded = Promise.withResolvers<void>()
      if (queue.length >= BATCH) continue
      isLate = false
      if (lost > 0) log.error(`${lost} audit entries were lost`)
      lost = 0
      if (!isStopping) await rest()
    }
    writing = null
  }

  function rest() {
    const pace = Promise.withResolvers<void>()
    hurry = pace.resolve
    return atMost(PACE_MS, pace.promise)
  }

  /** Tries until the entries are stored or there is no hope for them. */
  async function store(batch: readonly Waiting[]) {
    for (let failures = 1; ; failures++) {
      try {
        const now = clock.elapsed()
        return await insertEntries(
          sql,
          batch.map(({ at, ...entry }) => ({ ...entry, ageMs: isLate ? now - at : 0 })),
        )
      } catch (error) {
        if (isStopping || (failures >= TRIES && !isPassing(error))) {
          lost += batch.length
          return log.error('audit entries cannot be stored', { error })
        }
        if (failures === 1) log.warn('audit entries wait for the database', { error })
        isLate = true
        await pause(RETRY_MS)
      }
    }
  }

  return {
    record,
    async list(page) {
      if (writing !== null) await atMost(CATCH_UP_MS, caughtUp())
      return listEntries(lists, page)
    },
    async stop() {
      isStopping = true
      hurry()
      if (writing !== null) await atMost(STOP_MS, writing)
    },
  }

  /** What has been recorded so far is stored, or lost. */
  async function caughtUp() {
    const upTo = recorded
    while (settled < upTo) {
      hurry()
      await batchEnded.promise
    }
  }
}

/** Some send a webhook's token in the address: that calls nothing, but it must not be told to who reads this log. */
const withoutToken = (path: string) => path.replace(/^(\/api\/v1\/webhooks\/).+/s, '$1...')

/** One that cannot be stored would take its whole batch with it. */
const storable = (text: string) => text.slice(0, TEXT_LENGTH).toWellFormed().replaceAll('\0', '\ufffd')

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))

async function atMost(ms: number, work: Promise<void>) {
  const limit = Promise.withResolvers<void>()
  const timer = setTimeout(limit.resolve, ms)
  await Promise.race([work, limit.promise])
  clearTimeout(timer)
}
