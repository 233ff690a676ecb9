/** The free space that the service leaves on a disk, for the work under way, for Postgres and for whoever cleans up. */
import { statfs as statfsOf } from 'node:fs/promises'

const MIB = 1_048_576
/** The floor where none is configured: the smaller of the two. */
const DEFAULT_BYTES = 1_024 * MIB
const DEFAULT_SHARE = 0.02

export interface DiskFloor {
  /** Why nothing new should be written: `12 MB of disk space are free, and DISK_FLOOR is 1024 MB`. Null: there is enough. */
  shortage(): Promise<string | null>
}

type Statfs = (path: string) => Promise<{ bavail: number; blocks: number; bsize: number }>

/** `floorBytes`: DISK_FLOOR; null: the default, 0: no floor. A disk that does not say how full it is has enough space. */
export function makeDiskFloor(path: string, floorBytes: number | null, statfs: Statfs = statfsOf): DiskFloor {
  return {
    async shortage() {
      if (floorBytes === 0) return null
      const disk = await statfs(path).catch(() => null)
      if (disk === null) return null
      const free = disk.bavail * disk.bsize
      const floor = floorBytes ?? Math.min(DEFAULT_BYTES, disk.blocks * disk.bsize * DEFAULT_SHARE)
      if (free >= floor) return null
      return `${megabytes(free)} of disk space are free, and DISK_FLOOR is ${megabytes(floor)}`
    },
  }
}

const megabytes = (bytes: number) => `${Math.floor(bytes / MIB)} MB`

/** The system's codes for a disk, or somebody's part of it, that is full. */
const FULL: ReadonlySet<unknown> = new Set(['ENOSPC', 'EDQUOT'])
export const isDiskFull = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && FULL.has(error.code)
