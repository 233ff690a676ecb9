// Divides memory and threads of a machine among the engines at work. One engine alone may have nearly all; several get equal
// shares. The memory of all shares never exceeds the total while at most `concurrency` engines work.

export interface ShareSize {
  memoryBytes: number
  threads: number
}

/** The part of one engine at work. */
export interface Share {
  /** The current size of the share, which grows to what is free. Later calls may return less, but never less than the floor. */
  size(): ShareSize
  leave(): void
}

export interface Shares {
  /** Reserves the floor for one more engine. */
  join(): Share
}

interface SharesOptions {
  total: ShareSize
  /** Every engine has at least this much. */
  floor: ShareSize
  /** Engines at work for which the floor is reserved. */
  concurrency: number
  /** Memory that the machine can give now. */
  availableBytes(): number
}

/** Other processes need memory too, and an engine uses some beyond its limit. */
const AVAILABLE_SHARE = 0.8

/** Memory of an engine at work alone: the others keep their floors. */
export const memoryAlone = ({
  total,
  floor,
  concurrency,
}: Pick<SharesOptions, 'total' | 'floor' | 'concurrency'>) =>
  Math.max(floor.memoryBytes, total.memoryBytes - (concurrency - 1) * floor.memoryBytes)

export function makeShares({ total, floor, concurrency, availableBytes }: SharesOptions): Shares {
  /** The memory of each engine at work. */
  const held = new Map<Share, number>()

  function sizeOf(share: Share): ShareSize {
    // The floor is free again before the next size is computed.
    held.set(share, floor.memoryBytes)
    const used = [...held.values()].reduce((sum, bytes) => sum + bytes, 0) - floor.memoryBytes
    const reserved = Math.max(0, concurrency - held.size) * floor.memoryBytes
    const free = Math.min(
      total.memoryBytes - used - reserved,
      Math.floor(total.memoryBytes / held.size),
      Math.floor(availableBytes() * AVAILABLE_SHARE),
    )
    const memoryBytes = Math.max(floor.memoryBytes, free)
    held.set(share, memoryBytes)
    // The kernel divides the processors fairly, so threads may exceed them for a while.
    return { memoryBytes, threads: Math.max(floor.threads, Math.floor(total.threads / held.size)) }
  }

  return {
    join() {
      const share: Share = {
        size: () => sizeOf(share),
        leave: () => void held.delete(share),
      }
      held.set(share, floor.memoryBytes)
      return share
    },
  }
}
