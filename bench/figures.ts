/** Percentiles of durations in milliseconds. */
export interface Figures {
  p50: number
  p99: number
  max: number
}

export function figuresOf(samples: readonly number[]): Figures {
  const sorted = samples.toSorted((a, b) => a - b)
  const at = (share: number) =>
    sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN
  return { p50: at(0.5), p99: at(0.99), max: at(1) }
}

/** Runs `work` `times` times, one after the other. Returns the duration of each call in milliseconds. */
export async function timed(times: number, work: (n: number) => Promise<unknown>): Promise<number[]> {
  const samples: number[] = []
  for (let n = 0; n < times; n++) {
    const since = performance.now()
    await work(n)
    samples.push(performance.now() - since)
  }
  return samples
}

/** Prints one line per row. The last column is the ratio of the row's p50 to the p50 of the row `limit`. */
export function printFigures(rows: Record<string, Figures>, limit: string) {
  const base = rows[limit]?.p50 ?? Number.NaN
  const number = (value: number) => value.toFixed(2).padStart(9)
  console.log(
    `  ${''.padEnd(44)}${['p50 ms', 'p99 ms', 'max ms', `x ${limit}`].map((h) => h.padStart(9)).join(' ')}`,
  )
  for (const [name, { p50, p99, max }] of Object.entries(rows))
    console.log(`  ${name.padEnd(44)}${[p50, p99, max, p50 / base].map(number).join(' ')}`)
}

/** Prints rows with the same keys as a table. */
export function printTable(title: string, rows: readonly Record<string, number>[]) {
  console.log(`\n  ${title}`)
  const keys = Object.keys(rows[0] ?? {})
  const line = (cells: string[]) =>
    console.log(`  ${cells.map((cell, n) => cell.padStart(Math.max(keys[n]?.length ?? 0, 8) + 2)).join('')}`)
  line(keys)
  for (const row of rows)
    line(Object.values(row).map((value) => value.toFixed(Math.abs(value) < 100 ? 3 : 0)))
}
