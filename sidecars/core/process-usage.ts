// The resources that a process uses, as the kernel counts them. The profile of DuckDB does not count the bytes of a COPY, nor the
// memory outside its buffers. Reading a file of counters takes 10 µs. Only Linux has them.
import { readFileSync, writeFileSync } from 'node:fs'

/** Bytes of all reads and writes of files since the start of a process, also those that the page cache answers. */
export interface BytesMoved {
  bytesRead: number
  bytesWritten: number
}

/** Counters since the start of a process. */
export interface ProcessUsage extends BytesMoved {
  /** In steps of 10 ms. */
  cpuSeconds: number
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
export function cpuSecondsOf(pid: number): number | null {
  const stat = textOf(`/proc/${pid}/stat`)
  if (stat === '') return null
  // The name of the program may contain blanks and parentheses. The fields after it are numbers.
  const [userTicks, systemTicks] = stat.slice(stat.lastIndexOf(')')).split(' ').slice(12)
  return (Number(userTicks) + Number(systemTicks)) / TICKS_PER_SECOND
}

/** Zeros if this process may not look into the other one. */
export const bytesOf = (pid: number): BytesMoved => bytesIn(textOf(`/proc/${pid}/io`))

/** The numbers in a file `io` of /proc. */
export const bytesIn = (io: string): BytesMoved => ({
  bytesRead: Number(/^rchar: (\d+)$/m.exec(io)?.[1] ?? 0),
  bytesWritten: Number(/^wchar: (\d+)$/m.exec(io)?.[1] ?? 0),
})

function textOf(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return ''
  }
}

/** Resident memory of the process: now, and at its peak. Zeros when it is unknown. */
export function memoryOf(pid: number): { bytes: number; peakBytes: number } {
  const status = textOf(`/proc/${pid}/status`)
  const sizeIn = (pattern: RegExp) => Number(pattern.exec(status)?.[1] ?? 0) * 1_024
  return { bytes: sizeIn(/^VmRSS:\s+(\d+) kB$/m), peakBytes: sizeIn(/^VmHWM:\s+(\d+) kB$/m) }
}

/** The peak of the process starts again at its current memory. Without the right to look into it, the earlier peak stays. */
export function resetPeak(pid: number): void {
  try {
    writeFileSync(`/proc/${pid}/clear_refs`, '5')
  } catch {
    // The process has ended, or belongs to another user.
  }
}

/** An engine that SQL of users has taken over may report any bytes. */
export const usedSince = (before: ProcessUsage, now: ProcessUsage): ProcessUsage => ({
  cpuSeconds: now.cpuSeconds - before.cpuSeconds,
  bytesRead: Math.max(0, now.bytesRead - before.bytesRead),
  bytesWritten: Math.max(0, now.bytesWritten - before.bytesWritten),
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
