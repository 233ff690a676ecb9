import type { LandingFile } from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { type Log, messageOf } from '../log.ts'
import { EngineFault, type KeptCall } from './engine-messages.ts'
import { keepSql, tableFor } from './kept-calls.ts'
import { limits } from './limits.ts'
import type { Workplace } from './workplace.ts'

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

export function makePreviewRooms(log: Log) {
  /** By pipeline, the one used last at the end; null: it came to nothing. */
  const rooms = new Map<string, { room: Promise<PreviewRoom | null>; since: number }>()
  const sweep = setInterval(() => {
    const before = performance.now() - limits.previewRoomMs
    for (const [key, { since }] of rooms) if (since < before) leave(key)
  }, limits.previewRoomMs / 4)
  sweep.unref()

  function leave(key: string): void {
    const known = rooms.get(key)
    rooms.delete(key)
    void known?.room.then((room) => room && clear(room))
  }

  async function clear({ place }: PreviewRoom): Promise<void> {
    await place.clear().catch((error: unknown) => {
      log.error('a preview left something behind', { error: messageOf(error) })
    })
  }

  return {
    clear,
    /** The room of a pipeline, which is the caller's then; null: there is none. */
    async take(key: string): Promise<PreviewRoom | null> {
      const known = rooms.get(key)
      rooms.delete(key)
      return (await known?.room) ?? null
    },
    /** Keeps a room, with the rows of these calls. */
    put(key: string, room: PreviewRoom, calls: readonly string[]): void {
      leave(key)
      for (const oldest of [...rooms.keys()].slice(0, Math.max(0, rooms.size - limits.previewRooms + 1)))
        leave(oldest)
      const filled = fill(room, calls).then(
        () => room,
        async () => {
          await clear(room)
          return null
        },
      )
      rooms.set(key, { room: filled, since: performance.now() })
    },
  }
}

/** Reads what is not read yet. Throws where the instance is not to be used any more. */
async function fill(
  { place, instance, kept, refused }: PreviewRoom,
  calls: readonly string[],
): Promise<void> {
  for (const call of calls) {
    const number = kept.length + refused.size
    if (number >= limits.previewKeptCalls) return
    if (refused.has(call) || kept.some((known) => known.call === call)) continue
    const one = { call, table: tableFor(call, number) }
    try {
      const late = AbortSignal.timeout(limits.previewFillMs)
      await place.engine.call({ kind: 'run', number: instance, sql: keepSql(one) }, late)
      kept.push(one)
    } catch (error) {
      if (!(error instanceof EngineFault) || error.kind === 'out_of_memory') throw error
      // It is read from its files, as before.
      refused.add(call)
    }
  }
}
