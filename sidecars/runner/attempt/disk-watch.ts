import { type DiskFloor, makeDiskFloor } from '../../../lake/disk-floor.ts'
import { type Log, messageOf } from '../../core/log.ts'

// Runs wait while a disk of the runner is nearly full, because an attempt that began then would fail halfway.

/** Interval between two checks of the disks. */
const LOOK_MS = 1_000

interface DiskWatch {
  /** Why runs wait; null: runs do not wait. */
  shortage(): string | null
  stop(): void
}

/** `directories` are the directories that attempts write to, on one or several disks. */
export async function watchDisks(
  directories: readonly string[],
  { floorBytes, log }: { floorBytes: number | null; log: Log },
): Promise<DiskWatch> {
  const floors: DiskFloor[] = directories.map((directory) => makeDiskFloor(directory, floorBytes))
  let shortage: string | null = null

  async function look() {
    const found =
      (await Promise.all(floors.map((floor) => floor.shortage()))).find((reason) => reason !== null) ?? null
    if (found !== null && shortage === null) log.warn(`runs wait: ${found}`)
    if (found === null && shortage !== null) log.info('runs continue: enough disk space is free again')
    shortage = found
  }
  await look()
  const timer = setInterval(() => {
    look().catch((error: unknown) => log.error('free disk space cannot be read', { error: messageOf(error) }))
  }, LOOK_MS)
  timer.unref()
  return { shortage: () => shortage, stop: () => clearInterval(timer) }
}
