// Records writes to the API: operation, caller and addresses. A write reserves a slot in the queue before it is performed, so
// its entry is never dropped. Responses do not wait for the insert. The first entry is stored at once; later entries share an
// insert.
import type { Sql } from '../../drizzle/client.ts'
import type { Clock } from '../core/clock.ts'
import { notFound } from '../core/errors.ts'
import type { Identity } from '../core/identity.ts'
import type { NewId } from '../core/ids.ts'
import type { Log } from '../core/log.ts'
import type { Page } from '../core/pagination.ts'
import { makeQueueSlots } from './queue-slots.ts'
import { makeRefusals } from './refusals.ts'
import { listEntries } from './store.ts'
import { makeWriter } from './writer.ts'

/** Maximum length of each text, because an address may be as long as a server accepts. */
const TEXT_LENGTH = 2_048
const ACTIONS = new Map([
  ['POST', 'post'],
  ['PUT', 'put'],
  ['DELETE', 'delete'],
])
const AUDITED = ['/api/v1/', '/iceberg/v1/', '/s3/']

/** The recorded action of a method (in upper case) and a path; undefined: such requests are not recorded. */
const actionOf = (method: string, path: string) =>
  AUDITED.some((prefix) => `${path}/`.startsWith(prefix)) ? ACTIONS.get(method) : undefined

interface AuditedRequest {
  /** In upper case. */
  method: string
  /** Without its query. */
  path: string
  /** Null without a valid credential. */
  identity: Identity | null
  /** HTTP status of the response. */
  status: number
  /** Address of the client, and of the connection itself. */
  ip: string
  peer: string
  /** The request has a reserved slot in the queue. */
  hasSlot: boolean
}

export interface AuditTrail {
  /**
   * Reserves a slot in the queue before a request is performed; false when such requests are not recorded. Waits while the
   * queue is full. Throws an AppError (503) when no slot is free in time.
   */
  reserve(method: string, path: string): boolean | Promise<boolean>
  /** Records an answered request and releases its slot. Never throws and never waits. */
  record(request: AuditedRequest): void
}

export interface AuditService extends AuditTrail {
  /** Newest first, with all requests that this process answered before. 404 when the log is off. */
  list(page: Page): ReturnType<typeof listEntries>
  /** Stores the remaining entries for two seconds at most. Entries that are left go to the log of the process. */
  stop(): Promise<void>
}

/** The audit log when it is off. */
export const noAudit: AuditService = {
  reserve: () => false,
  record() {},
  list: async () => {
    throw notFound('audit log')
  },
  async stop() {},
}

interface AuditDeps {
  sql: Sql
  /** Connections for slow lists, so that entries do not wait behind them. */
  lists: Sql
  clock: Clock
  newId: NewId
  log: Log
  slotWaitMs?: number | undefined
}

export function makeAuditService({ sql, lists, clock, newId, log, slotWaitMs }: AuditDeps): AuditService {
  const refusals = makeRefusals(newId)
  const writer = makeWriter({ sql, clock, log, refusals, onStored: () => slots.grant() })
  const slots = makeQueueSlots({ queued: writer.queued, log, waitMs: slotWaitMs })

  return {
    reserve: (method, path) => actionOf(method, path) !== undefined && slots.reserve(),
    record({ method, path, identity, status, ip, peer, hasSlot }) {
      const action = actionOf(method, path)
      if (action === undefined) return
      if (hasSlot) slots.release()
      const request = {
        action,
        resource: storable(withoutToken(path)),
        userId: storable(identity === null ? '' : identity.userId),
        key: identity?.kind === 'api-key' ? identity.name : '',
        status,
        ip,
        peer,
      }
      if (hasSlot && !isCounted(identity, status))
        writer.push({ ...request, id: newId(), at: clock.elapsed(), count: 1 })
      else {
        refusals.add(request, clock.elapsed())
        slots.grant()
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
 * Whether a request is counted together with others. In an API without credentials, every caller is anonymous and may write.
 * So only requests that were refused for their origin or their rate are counted there.
 */
function isCounted(identity: Identity | null, status: number): boolean {
  if (status === 429) return true
  if (identity === null) return status >= 400
  return identity.kind === 'anonymous' && (status === 403 || status === 421)
}

/** Some clients wrongly append a webhook token to the address. Readers of this log must not see the token. */
const withoutToken = (path: string) => path.replace(/^(\/api\/v1\/webhooks\/).+/s, '$1...')

/** Makes a text storable, because an entry that cannot be stored would fail its whole batch. */
const storable = (text: string) => text.slice(0, TEXT_LENGTH).toWellFormed().replaceAll('\0', '\ufffd')
