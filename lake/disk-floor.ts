// The free disk space that the service preserves for running work, for Postgres and for cleanup.
import { statfs as statfsOf } from 'node:fs/promises'

const MIB = 1_048_576
/** The default floor is the smaller of these two. */
const DEFAULT_BYTES = 1_024 * MIB
const DEFAULT_SHARE = 0.02

export interface DiskFloor {
  /**
   * Why the service must write nothing new: `12 MB of disk space are free, and DISK_FLOOR is 1024 MB`. Null when enough space
   * is free. `share` is the part of the floor that the write respects.
   */
  shortage(share?: number): Promise<string | null>
}

/**
 * The part of the floor that running work leaves, too. Postgres on the same disk needs it: without space for its log, Postgres ends
 * and cannot start again.
 */
export const LAST_SHARE = 0.25

type Statfs = (path: string) => Promise<{ bavail: number; blocks: number; bsize: number }>

/**
 * `floorBytes` is DISK_FLOOR: null means the default, 0 means no floor. A disk that does not report its free space counts as
 * having enough.
 */
export function makeDiskFloor(path: string, floorBytes: number | null, statfs: Statfs = statfsOf): DiskFloor {
  return {
    async shortage(share = 1) {
      if (floorBytes === 0) return null
      const disk = await statfs(path).catch(() => null)
      if (disk === null) return null
      const free = disk.bavail * disk.bsize
      const floor = floorBytes ?? Math.min(DEFAULT_BYTES, disk.blocks * disk.bsize * DEFAULT_SHARE)
      if (free >= share * floor) return null
      return `${megabytes(free)} of disk space are free, and DISK_FLOOR is ${megabytes(floor)}`
    },
  }
}

const megabytes = (bytes: number) => `${Math.floor(bytes / MIB)} MB`

/** System error codes for a full disk and for an exhausted quota. */
const FULL: ReadonlySet<unknown> = new Set(['ENOSPC', 'EDQUOT'])
export const isDiskFull = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && FULL.has(error.code)
