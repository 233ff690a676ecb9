// What was asked of the API, by whom and from where. A write reserves a place in the queue before it is performed, so its
// entry is never dropped. Answers do not wait for the insert: the first entry is stored at once, later ones together.
import type { Sql } from '../../drizzle/client.ts'
import type { Clock } from '../core/clock.ts'
import { notFound } from '../core/errors.ts'
import type { Identity } from '../core/identity.ts'
import type { NewId } from '../core/ids.ts'
import type { Log } from '../core/log.ts'
import type { Page } from '../core/pagination.ts'
import { makePlaces } from './places.ts'
import { makeRefusals } from './refusals.ts'
import { listEntries } from './store.ts'
import { makeWriter } from './writer.ts'

/** Of each text: an address may be as long as a server takes. */
const TEXT_LENGTH = 2_048
const ACTIONS = new Map([
  ['POST', 'post'],
  ['PUT', 'put'],
  ['DELETE', 'delete'],
])
const AUDITED = '/api/v1/'

/** What requests with this method (in upper case) and path are recorded as; undefined: they are not recorded. */
const actionOf = (method: string, path: string) =>
  `${path}/`.startsWith(AUDITED) ? ACTIONS.get(method) : undefined

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

export interface AuditDeps {
  sql: Sql
  /** For what may take its time: entries must not wait behind it. */
  lists: Sql
  clock: Clock
  newId: NewId
  log: Log
  placeWaitMs?: number | undefined
}

export function makeAuditService({ sql, lists, clock, newId, log, placeWaitMs }: AuditDeps): AuditService {
  const refusals = makeRefusals(newId)
  const writer = makeWriter({ sql, clock, log, refusals, onStored: () => places.grant() })
  const places = makePlaces({ queued: writer.queued, log, waitMs: placeWaitMs })

  return {
    reserve: (method, path) => actionOf(method, path) !== undefined && places.reserve(),
    record({ method, path, identity, status, ip, peer, hasPlace }) {
      const action = actionOf(method, path)
      if (action === undefined) return
      if (hasPlace) places.release()
      const request = {
        action,
        resource: storable(withoutToken(path)),
        userId: storable(identity === null ? '' : identity.userId),
        key: identity?.kind === 'api-key' ? identity.name : '',
        status,
        ip,
        peer,
      }
      if (hasPlace && !isCounted(identity, status))
        writer.push({ ...request, id: newId(), at: clock.elapsed(), count: 1 })
      else {
        refusals.add(request, clock.elapsed())
        places.grant()
      }
      writer.start()
    },
    async list(page) {
      await writer.catchUp()
      return listEntries(lists, page)
    },
    stop: writer.stop,
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

/** Some send a webhook's token in the address: that calls nothing, but it must not be told to who reads this log. */
const withoutToken = (path: string) => path.replace(/^(\/api\/v1\/webhooks\/).+/s, '$1...')

/** One that cannot be stored would take its whole batch with it. */
const storable = (text: string) => text.slice(0, TEXT_LENGTH).toWellFormed().replaceAll('\0', '\ufffd')
