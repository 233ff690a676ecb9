// The processors and the memory that this process may use: those of the machine, or less within a container (cgroup v2).
import { readFileSync } from 'node:fs'
import { availableParallelism, totalmem } from 'node:os'
import { dirname, join } from 'node:path'
import type { Machine } from './settings.ts'

interface Places {
  proc: string
  cgroups: string
}

const PLACES: Places = { proc: '/proc', cgroups: '/sys/fs/cgroup' }

/** Every limit of a parent applies too. Without cgroup v2, only the machine limits. */
export function readMachine(
  places: Places = PLACES,
  machine: Machine = { cores: availableParallelism(), memoryBytes: totalmem() },
): Machine {
  let { cores, memoryBytes } = machine
  for (const group of groupsOf(places)) {
    const [quota, period] = wordsIn(join(group, 'cpu.max')).map(Number)
    if (quota !== undefined && period !== undefined && quota / period > 0)
      cores = Math.max(1, Math.min(cores, Math.floor(quota / period)))
    memoryBytes = Math.min(memoryBytes, bytesIn(join(group, 'memory.max')))
  }
  return { cores, memoryBytes }
}

/** Memory that can be used now without swapping: of the machine, and of every group. Infinity when it is unknown. */
export function availableBytes(places: Places = PLACES): number {
  const kilobytes = /^MemAvailable:\s+(\d+) kB$/m.exec(textOf(join(places.proc, 'meminfo')))?.[1]
  let available = kilobytes === undefined ? Number.POSITIVE_INFINITY : Number(kilobytes) * 1_024
  for (const group of groupsOf(places)) {
    const max = bytesIn(join(group, 'memory.max'))
    if (!Number.isFinite(max)) continue
    // The kernel frees cached file pages before a group reaches its limit.
    const cached = Number(/^inactive_file (\d+)$/m.exec(textOf(join(group, 'memory.stat')))?.[1] ?? 0)
    const used = Number(textOf(join(group, 'memory.current'))) - cached
    available = Math.min(available, Math.max(0, max - used))
  }
  return available
}

/** The directories of this process's group and its parents. */
function groupsOf({ proc, cgroups }: Places): string[] {
  const path = /^0::(\/.*)$/m.exec(textOf(join(proc, 'self', 'cgroup')))?.[1]
  if (path === undefined) return []
  const groups: string[] = []
  for (let at = path; at !== '/'; at = dirname(at)) groups.push(join(cgroups, at))
  return [...groups, cgroups]
}

/** A missing file or the word `max` means no limit. */
function bytesIn(file: string): number {
  const bytes = Number(textOf(file) || Number.NaN)
  return Number.isNaN(bytes) ? Number.POSITIVE_INFINITY : bytes
}

const wordsIn = (file: string): string[] => textOf(file).split(' ')

function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8').trim()
  } catch {
    return ''
  }
}
