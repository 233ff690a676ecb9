// What was asked of the API, by whom and from where. A write reserves a place in the queue before it is performed, so its
// entry is never dropped. Answers do not wait for the insert: the first entry is stored at once, later ones together.
import type { Sql } from '../../drizzle/client.ts'
import { isPassing } from '../../drizzle/errors.ts'
import type { Clock } from '../core/clock.ts'
import { AppError, notFound } from '../core/errors.ts'
import type { Identity } from '../core/identity.ts'
import type { NewId } from '../core/ids.ts'
import type { Log } from '../core/log.ts'
import type { Page } from '../core/pagination.ts'
import { makeRefusals, REFRESH_MS } from './refusals.ts'
import { insertEntries, listEntries, type NewEntry } from './store.ts'

/** Entries that wait for the database, and places of writes under way; further writes wait for a place. */
export const AUDIT_QUEUE_MAX = 10_000
/** A write waits this long for a place, less than common clients wait for an answer; then it is refused unperformed. */
const PLACE_WAIT_MS = 5_000
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

/** Whether requests with this method (in upper case) and path are recorded. */
const isAudited = (method: string, path: string) =>
  ACTIONS[method] !== undefined && `${path}/`.startsWith(AUDITED)

export interface AuditedRequest {
  /** In upper case. */
  method: string
  /** Without its query. */
  path: string
  /** Null without a credential that the API knows. */
  identity: Identity | null
  /** HTTP status of the answer. */
  status: number
  /** Address of the client, and of the connection itself. */
  ip: string
  peer: string
  /** The request has a place in the queue. */
  hasPlace: boolean
}

export interface AuditTrail {
  /**
   * Reserves the place of a request in the queue before it is performed; false when such requests are not recorded. Waits
   * while the queue is full. Throws an AppError (503) when no place came free in time.
   */
  reserve(method: string, path: string): boolean | Promise<boolean>
  /** Records an answered request and uses up its place. Never throws and never waits. */
  record(request: AuditedRequest): void
}

export interface AuditService extends AuditTrail {
  /** Newest first; what this process has answered before is there. 404 when the log is switched off. */
  list(page: Page): ReturnType<typeof listEntries>
  /** Stores what is left, for two seconds at most; the log of the process gets what could not be stored. */
  stop(): Promise<void>
}

/** The audit log when it is switched off. */
export const noAudit: AuditService = {
  reserve: () => false,
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
  placeWaitMs = PLACE_WAIT_MS,
}: {
  sql: Sql
  /** For what may take its time: entries must not wait behind it. */
  lists: Sql
  clock: Clock
  newId: NewId
  log: Log
  placeWaitMs?: number
}): AuditService {
  /** The first ones are on their way; they leave when they are stored. */
  const queue: Waiting[] = []
  /** Places of writes under way. */
  let reserved = 0
  /** Writes that wait for a place, oldest first. */
  const waiters = new Set<() => void>()
  const refusals = makeRefusals(newId)
  let isStopping = false
  let writing: Promise<void> | null = null
  let later: ReturnType<typeof setTimeout> | undefined
  let recorded = 0
  let settled = 0
  let batchesBegun = 0
  let batchesEnded = 0
  let batchEnded = Promise.withResolvers<void>()
  /** Ends the pause between two inserts: somebody waits for the entries. */
  let hurry = () => {}
  /** Readers that wait for counts of refusals. */
  let readers = 0
  /** Entries had to wait for the database: their own time counts then, not that of the insert. */
  let isLate = false

  const isFull = () => queue.length + reserved >= AUDIT_QUEUE_MAX

  function reserve(method: string, path: string): boolean | Promise<boolean> {
    if (!isAudited(method, path)) return false
    if (isFull()) return placeInTime()
    reserved++
    return true
  }

  function placeInTime(): Promise<boolean> {
    if (waiters.size === 0)
      log.warn(`more than ${AUDIT_QUEUE_MAX} audit entries wait: writes wait for a place`)
    const place = Promise.withResolvers<boolean>()
    const grant = () => {
      clearTimeout(limit)
      reserved++
      place.resolve(true)
    }
    const limit = setTimeout(() => {
      waiters.delete(grant)
      place.reject(auditIsFull())
    }, placeWaitMs)
    waiters.add(grant)
    return place.promise
  }

  function grantPlaces() {
    for (const grant of waiters) {
      if (isFull()) return
      waiters.delete(grant)
      grant()
    }
  }

  function record({ method, path, identity, status, ip, peer, hasPlace }: AuditedRequest) {
    if (!isAudited(method, path)) return
    if (hasPlace) reserved--
    const request = {
      action: ACTIONS[method] ?? '',
      resource: storable(withoutToken(path)),
      userId: storable(identity?.userId ?? ''),
      key: identity?.kind === 'api-key' ? identity.name : '',
      status,
      ip,
      peer,
    }
    if (hasPlace && !isCounted(identity, status)) {
      recorded++
      queue.push({ ...request, id: newId(), at: clock.elapsed(), count: 1 })
    } else {
      refusals.add(request, clock.elapsed())
      grantPlaces()
    }
    start()
  }

  function start() {
    clearTimeout(later)
    writing ??= write()
  }

  async function write() {
    // Requests that end in the same moment go together.
    await Promise.resolve()
    for (;;) {
      const entries = queue.slice(0, BATCH)
      const counts = refusals.due(clock.elapsed(), readers > 0 || isStopping)
      if (entries.length + counts.length === 0) break
      batchesBegun++
      await store([...entries, ...counts].sort((one, other) => one.at - other.at))
      queue.splice(0, entries.length)
      refusals.stored(counts, clock.elapsed())
      settled += entries.length
      batchesEnded++
      grantPlaces()
      batchEnded.resolve()
      batchEnded = Promise.withResolvers<void>()
      if (queue.length >= BATCH) continue
      isLate = false
      if (!isStopping) await rest()
    }
    writing = null
    if (refusals.hasChanges() && !isStopping) later = setTimeout(start, REFRESH_MS)
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
        if (isStopping || (failures >= TRIES && !isPassing(error))) return logUnstored(batch, error)
        if (failures === 1) log.warn('audit entries wait for the database', { error })
        isLate = true
        await pause(RETRY_MS)
      }
    }
  }

  /** The log of the process is the last place for an entry. */
  function logUnstored(batch: readonly Waiting[], error?: unknown) {
    log.error(`${batch.length} audit entries cannot be stored; they follow`, { error })
    for (const { action, resource, userId, key, ip, peer, status, count } of batch)
      log.error('audit entry', { action, resource, user_id: userId, key, ip, peer, status, count })
  }

  return {
    reserve,
    record,
    async list(page) {
      if (writing !== null || refusals.hasChanges()) {
        readers++
        await atMost(CATCH_UP_MS, caughtUp())
        readers--
      }
      return listEntries(lists, page)
    },
    async stop() {
      isStopping = true
      clearTimeout(later)
      if (refusals.hasChanges()) start()
      hurry()
      if (writing !== null) await atMost(STOP_MS, writing)
      if (queue.length > 0) logUnstored(queue.splice(0))
    },
  }

  /** Resolves when all recorded entries are stored or logged. */
  async function caughtUp() {
    const upTo = recorded
    // The next batch has all counts of this moment.
    const batch = batchesBegun + 1
    while (settled < upTo || (refusals.hasChanges() && batchesEnded < batch)) {
      start()
      hurry()
      await batchEnded.promise
    }
  }
}

/**
 * Whether a request is counted with others. Where the API is open, everybody is anonymous and may write: only what is refused
 * for its origin or its rate is counted there.
 */
function isCounted(identity: Identity | null, status: number): boolean {
  if (status === 429) return true
  if (identity === null) return status >= 400
  return identity.kind === 'anonymous' && (status === 403 || status === 421)
}

const auditIsFull = () =>
  new AppError(
    503,
    'UNAVAILABLE',
    'the audit log cannot be written fast enough, so nothing was done; send the request again later',
    { headers: { 'retry-after': String(RETRY_AFTER_SECONDS) } },
  )
const RETRY_AFTER_SECONDS = 5

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
