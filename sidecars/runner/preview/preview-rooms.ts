import type { LandingFile } from '../../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { type Log, messageOf } from '../../log.ts'
import type { Workplace } from '../attempt/workplace.ts'
import { EngineFault, type KeptCall } from '../engine/engine-messages.ts'
import { limits } from '../limits.ts'
import { keepSql, tableFor } from './kept-calls.ts'

// Who writes a pipeline previews it again and again. So the place of a preview that has read files of landing zones is kept
// for the next one of the same pipeline, with an instance that is locked to these very files and has their rows in tables.
// It is used for nothing else: where anything that is read has changed, a new place is made.

export interface PreviewRoom {
  readonly place: Workplace
  /** Locked to the tables and landing files below. */
  readonly instance: number
  /** Which tables it shows, and where from. */
  readonly tables: string
  /** By zone. */
  readonly landings: ReadonlyMap<string, readonly LandingFile[]>
  /** Calls whose rows it holds. */
  readonly kept: KeptCall[]
  /** Calls whose rows it cannot hold. */
  readonly refused: Set<string>
}

export type PreviewRooms = ReturnType<typeof makePreviewRooms>

/** A room whose rows may still be read. */
interface Kept {
  /** Null: it came to nothing. */
  room: Promise<PreviewRoom | null>
  filling: AbortController
  since: number
}

/** `fillMs`: what reading all rows of one room may take. */
export function makePreviewRooms(log: Log, fillMs: number = limits.previewFillMs) {
  /** By pipeline, the one used last at the end. */
  const rooms = new Map<string, Kept>()
  const sweep = setInterval(() => {
    const before = performance.now() - limits.previewRoomMs
    for (const [key, { since }] of rooms) if (since < before) leave(key)
  }, limits.previewRoomMs / 4)
  sweep.unref()

  function leave(key: string): void {
    const known = rooms.get(key)
    rooms.delete(key)
    if (known !== undefined) abandon(known)
  }

  /** What is not read yet is read for nobody. */
  function abandon({ room, filling }: Kept): void {
    filling.abort(new Error('nobody waits for the room'))
    void room.then((filled) => filled && clear(filled))
  }

  async function clear({ place }: PreviewRoom): Promise<void> {
    await place.clear().catch((error: unknown) => {
      log.error('a preview left something behind', { error: messageOf(error) })
    })
  }

  return {
    clear,
    /**
     * The room of a pipeline, which is the caller's then; null: there is none. Waits until its rows are read; throws the
     * signal's reason, and the room is cleared then.
     */
    async take(key: string, signal: AbortSignal): Promise<PreviewRoom | null> {
      signal.throwIfAborted()
      const known = rooms.get(key)
      if (known === undefined) return null
      rooms.delete(key)
      const { promise: gone, reject } = Promise.withResolvers<never>()
      const leaveIt = () => reject(signal.reason)
      signal.addEventListener('abort', leaveIt, { once: true })
      try {
        return await Promise.race([known.room, gone])
      } catch (error) {
        abandon(known)
        throw error
      } finally {
        signal.removeEventListener('abort', leaveIt)
      }
    },
    /** Keeps a room, with the rows of these calls. */
    put(key: string, room: PreviewRoom, calls: readonly string[]): void {
      leave(key)
      for (const oldest of [...rooms.keys()].slice(0, Math.max(0, rooms.size - limits.previewRooms + 1)))
        leave(oldest)
      const filling = new AbortController()
      const deadline = AbortSignal.any([filling.signal, AbortSignal.timeout(fillMs)])
      const filled = fill(room, calls, deadline).then(
        () => room,
        async () => {
          await clear(room)
          return null
        },
      )
      rooms.set(key, { room: filled, filling, since: performance.now() })
    },
  }
}

/** Reads what is not read yet. Throws where the instance is not to be used any more. */
async function fill(
  { place, instance, kept, refused }: PreviewRoom,
  calls: readonly string[],
  deadline: AbortSignal,
): Promise<void> {
  for (const call of calls) {
    const number = kept.length + refused.size
    if (number >= limits.previewKeptCalls) return
    if (refused.has(call) || kept.some((known) => known.call === call)) continue
    const one = { call, table: tableFor(call, number) }
    try {
      await place.engine.call({ kind: 'run', number: instance, sql: keepSql(one) }, deadline)
      kept.push(one)
    } catch (error) {
      if (!(error instanceof EngineFault) || error.hasSpoilt) throw error
      // It is read from its files, as before.
      refused.add(call)
    }
  }
}
