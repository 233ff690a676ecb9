// The resources that a process uses, as the kernel counts them. The profile of DuckDB does not count the bytes of a COPY, nor the
// memory outside its buffers. Reading the counters takes 20 µs. Only Linux has them.
import { readFileSync, writeFileSync } from 'node:fs'

/** Counters since the start of the process. */
export interface ProcessUsage {
  /** In steps of 10 ms. */
  cpuSeconds: number
  /** Bytes of all reads and writes of files, also those that the page cache answers. */
  bytesRead: number
  bytesWritten: number
}

/** The resources of one piece of work. */
export interface Cost extends ProcessUsage {
  /** Peak memory of the largest process. 0: unknown. */
  peakMemoryBytes: number
}

export const NO_COST: Cost = { cpuSeconds: 0, bytesRead: 0, bytesWritten: 0, peakMemoryBytes: 0 }

/** The unit of times in /proc: Linux fixes it at 100 per second for programs. */
const TICKS_PER_SECOND = 100

/** Null: the process has ended, or the system does not count. */
export function usageOf(pid: number): ProcessUsage | null {
  try {
    // The name of the program may contain blanks and parentheses. The fields after it are numbers.
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    const [userTicks, systemTicks] = stat.slice(stat.lastIndexOf(')')).split(' ').slice(12)
    const io = readFileSync(`/proc/${pid}/io`, 'latin1')
    return {
      cpuSeconds: (Number(userTicks) + Number(systemTicks)) / TICKS_PER_SECOND,
      bytesRead: Number(/^rchar: (\d+)$/m.exec(io)?.[1] ?? 0),
      bytesWritten: Number(/^wchar: (\d+)$/m.exec(io)?.[1] ?? 0),
    }
  } catch {
    return null
  }
}

/** Resident memory of the process: now, and at its peak. Zeros when it is unknown. */
export function memoryOf(pid: number): { bytes: number; peakBytes: number } {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'latin1')
    const bytesIn = (pattern: RegExp) => Number(pattern.exec(status)?.[1] ?? 0) * 1_024
    return { bytes: bytesIn(/^VmRSS:\s+(\d+) kB$/m), peakBytes: bytesIn(/^VmHWM:\s+(\d+) kB$/m) }
  } catch {
    return { bytes: 0, peakBytes: 0 }
  }
}

/** The peak of the process starts again at its current memory. Without the right to do so, the earlier peak stays. */
export function resetPeak(pid: number): void {
  try {
    writeFileSync(`/proc/${pid}/clear_refs`, '5')
  } catch {
    // The process has ended, or belongs to another user.
  }
}

export const usedSince = (before: ProcessUsage, now: ProcessUsage): ProcessUsage => ({
  cpuSeconds: now.cpuSeconds - before.cpuSeconds,
  bytesRead: now.bytesRead - before.bytesRead,
  bytesWritten: now.bytesWritten - before.bytesWritten,
})

export const costOfAll = (costs: readonly Cost[]): Cost =>
  costs.reduce(
    (sum, cost) => ({
      cpuSeconds: sum.cpuSeconds + cost.cpuSeconds,
      bytesRead: sum.bytesRead + cost.bytesRead,
      bytesWritten: sum.bytesWritten + cost.bytesWritten,
      peakMemoryBytes: Math.max(sum.peakMemoryBytes, cost.peakMemoryBytes),
    }),
    NO_COST,
  )

/** The cost as attributes of a span. */
export const usageAttributes = ({ cpuSeconds, bytesRead, bytesWritten }: ProcessUsage) => ({
  'sluice.cpu_seconds': cpuSeconds,
  'sluice.bytes_read': bytesRead,
  'sluice.bytes_written': bytesWritten,
})

/** The cost on the wire (sluice.runner.v1.Cost). */
export const costOnWire = ({ cpuSeconds, bytesRead, bytesWritten, peakMemoryBytes }: Cost) => ({
  cpuSeconds,
  bytesRead: BigInt(bytesRead),
  bytesWritten: BigInt(bytesWritten),
  peakMemoryBytes: BigInt(peakMemoryBytes),
})
