import { lstat, opendir } from 'node:fs/promises'
import { join } from 'node:path'

// Limits of a process bound one file; that there are not too many of them is seen to from outside.

export interface RoomLimits {
  bytes: number
  files: number
  everyMs: number
}

/** Calls `onFull` once, when the directory holds more than it may. Answers what ends the watch. */
export function watchRoom(directory: string, limits: RoomLimits, onFull: () => void): () => void {
  let isLooking = false
  let hasEnded = false
  const timer = setInterval(async () => {
    if (isLooking) return
    isLooking = true
    const isFull = await holdsMore(directory, limits).catch(() => false)
    isLooking = false
    if (!isFull || hasEnded) return
    end()
    onFull()
  }, limits.everyMs)
  function end() {
    hasEnded = true
    clearInterval(timer)
  }
  return end
}

/** Stops to count as soon as it is too much. */
export async function holdsMore(
  directory: string,
  limits: Pick<RoomLimits, 'bytes' | 'files'>,
): Promise<boolean> {
  let bytes = 0
  let files = 0
  const open = [directory]
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    const entries = await opendir(at).catch(() => null)
    // What is gone by now takes no room.
    if (entries === null) continue
    for await (const entry of entries) {
      const path = join(at, entry.name)
      files += 1
      if (entry.isDirectory()) open.push(path)
      else bytes += (await lstat(path).catch(() => null))?.size ?? 0
      if (files > limits.files || bytes > limits.bytes) return true
    }
  }
  return false
}
