// NOTIFY serialises commits, so it is sent at most once per batch. A batch with its own notices sends them in its transaction;
// a coalescer sends other notices after the commit. A sweep finds changes whose notice was lost.
import type { Sql, SqlTx } from '../../../drizzle/client.ts'
import type { Part } from '../../../drizzle/sql.ts'
import type { TerminalStatus } from '../../../machines/run.ts'
import type { PipelineId, RunId } from '../../core/ids.ts'

/** The only channel of announcements. Each API process and each replica's trigger evaluator listen to it. */
const CHANNEL = 'sluice_announcement'

/** The internal run-completed event. */
export interface RunCompleted {
  run_id: RunId
  pipeline_id: PipelineId
  namespace: string
  layer: string
  pipeline: string
  status: TerminalStatus
}

/** A NOTIFY payload must be shorter than 8,000 bytes. */
const PAYLOAD_BYTES = 7_500

export interface Notices {
  /** Runs with new log lines, another phase or another status. */
  changed(ids: Iterable<RunId>): void
  completed(runs: RunCompleted[]): void
  /** An event that a trigger listens for was recorded. */
  recorded(): void
}

/** The payload of one announcement, as JSON. */
export type Announcement =
  /** Runs with new log lines, another phase or another status. */
  | { changed: RunId[] }
  | { completed: RunCompleted[] }
  /** A success or an upload that a trigger listens for was recorded. */
  | { isEventRecorded: true }

const EVENT_RECORDED = JSON.stringify({ isEventRecorded: true } satisfies Announcement)

/** Calls `consume` for each announcement, and `onListening` whenever earlier announcements may have been missed. */
export const listen = async (
  sql: Sql,
  consume: (announcement: Announcement) => void,
  onListening?: () => void,
): Promise<{ unlisten(): Promise<void> }> =>
  sql.listen(CHANNEL, (payload) => consume(JSON.parse(payload)), onListening)

/** Announcements split into payloads that each fit the size limit. */
const payloadsOf = (changed: Iterable<RunId>, completed: readonly RunCompleted[]): string[] => [
  ...chunked([...changed]).map((items) => `{"changed":${items}}`),
  ...chunked(completed).map((items) => `{"completed":${items}}`),
]

/**
 * An expression that sends notices with the commit. If a listener does not empty the notification queue, the queue fills up,
 * and a full queue makes commits fail. So no notice is sent once the queue is half full.
 */
export const notifying = (
  tx: Sql | SqlTx,
  changed: Iterable<RunId>,
  completed: readonly RunCompleted[] = [],
): Part => tx`(
  select count(pg_notify(${CHANNEL}, payload))
  from jsonb_array_elements_text(${tx.json(payloadsOf(changed, completed))}) as payload
  where ${hasCapacity(tx)})`

/** An expression that reports recorded events with the commit, once per row of this table expression. Equal notices of a commit are one. */
export const notifyingEvents = (tx: Sql | SqlTx, events: Part): Part => tx`(
  select count(pg_notify(${CHANNEL}, ${EVENT_RECORDED})) from ${events} where ${hasCapacity(tx)})`

/** Whether the notification queue, which every listener must read, has room. */
const hasCapacity = (tx: Sql | SqlTx): Part => tx`(select pg_notification_queue_usage()) < 0.5`

/** Collects notices while a NOTIFY is being sent, and sends them with the next NOTIFY. */
export function makeNotices(sql: Sql, onError: (error: unknown) => void): Notices {
  const changed = new Set<RunId>()
  const completed: RunCompleted[] = []
  let hasRecorded = false
  let sending = false

  async function send() {
    if (sending) return
    sending = true
    try {
      while (changed.size > 0 || completed.length > 0 || hasRecorded) {
        const payloads = payloadsOf(changed, completed)
        if (hasRecorded) payloads.push(EVENT_RECORDED)
        hasRecorded = false
        changed.clear()
        completed.length = 0
        // The notices are only hints: a crash may lose them, so the commit does not wait for the disk.
        await sql`
          with quick as materialized (select set_config('synchronous_commit', 'off', true))
          select pg_notify(${CHANNEL}, payload) from quick, jsonb_array_elements_text(${sql.json(payloads)}) as payload`
      }
    } catch (error) {
      onError(error)
    } finally {
      sending = false
    }
  }

  return {
    changed(ids) {
      for (const id of ids) changed.add(id)
      if (changed.size > 0) queueMicrotask(send)
    },
    completed(runs) {
      completed.push(...runs)
      if (runs.length > 0) queueMicrotask(send)
    },
    recorded() {
      hasRecorded = true
      queueMicrotask(send)
    },
  }
}

/** Splits items into JSON arrays that each fit a payload. */
function chunked(items: readonly unknown[]): string[] {
  const chunks: string[] = []
  let texts: string[] = []
  let bytes = 2
  for (const item of items) {
    const text = JSON.stringify(item)
    const size = Buffer.byteLength(text) + 1
    if (bytes + size > PAYLOAD_BYTES && texts.length > 0) {
      chunks.push(`[${texts.join(',')}]`)
      texts = []
      bytes = 2
    }
    texts.push(text)
    bytes += size
  }
  if (texts.length > 0) chunks.push(`[${texts.join(',')}]`)
  return chunks
}
