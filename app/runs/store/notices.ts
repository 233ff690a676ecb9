// NOTIFY serialises commits, so it is sent at most once per batch: in the transaction of a batch that tells of itself, or
// after the commit by a coalescer. A lost one costs a sweep.
import type { JSONValue } from 'postgres'
import type { Sql, SqlTx } from '../../../drizzle/client.ts'
import type { Part } from '../../../drizzle/together.ts'
import type { TerminalStatus } from '../../../machines/run.ts'
import type { PipelineId, RunId } from '../../core/ids.ts'

export const RUN_CHANGED = 'sluice_run_changed'
export const RUN_COMPLETED = 'sluice_run_completed'
export const EVENT_RECORDED = 'sluice_event_recorded'

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
  /** New log lines, another phase or status. */
  changed(ids: Iterable<RunId>): void
  completed(runs: RunCompleted[]): void
  /** An event that some trigger hears. */
  recorded(): void
}

interface Notice {
  channel: string
  payload: string
}

const noticesOf = (changed: Iterable<RunId>, completed: readonly RunCompleted[]): Notice[] => [
  ...chunked([...changed]).map((payload) => ({ channel: RUN_CHANGED, payload })),
  ...chunked(completed).map((payload) => ({ channel: RUN_COMPLETED, payload })),
]

/**
 * An expression that sends notices with the commit. A queue that somebody does not empty would make the commit fail when
 * it is full: long before that nothing more is put into it.
 */
export const notifying = (
  tx: Sql | SqlTx,
  changed: Iterable<RunId>,
  completed: readonly RunCompleted[] = [],
): Part => tx`(
  select count(pg_notify(n.channel, n.payload))
  from jsonb_to_recordset(${tx.json([...noticesOf(changed, completed)] as unknown as JSONValue)}) as n(channel text, payload text)
  where ${hasRoom(tx)})`

/** Whether the queue of notices, which every listener has to read, has room. */
export const hasRoom = (tx: Sql | SqlTx): Part => tx`(select pg_notification_queue_usage()) < 0.5`

/** Collects what happens while a NOTIFY is on its way and sends it with the next one. */
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
        const payloads: Notice[] = [
          ...noticesOf(changed, completed),
          ...(hasRecorded ? [{ channel: EVENT_RECORDED, payload: '' }] : []),
        ]
        hasRecorded = false
        changed.clear()
        completed.length = 0
        // What is lost in a crash is only a hint: nobody waits for the disk.
        await sql`
          with quick as materialized (select set_config('synchronous_commit', 'off', true))
          select pg_notify(n.channel, n.payload)
          from quick, jsonb_to_recordset(${sql.json(payloads as unknown as JSONValue)}) as n(channel text, payload text)`
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

/** JSON arrays that each fit a payload. */
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
