const NUMBER = new Intl.NumberFormat('en-US')

/** For example `1 row`, `3,000 rows`. */
export const counted = (count: number | bigint, noun: string): string =>
  `${NUMBER.format(count)} ${noun}${Number(count) === 1 ? '' : 's'}`

export function sized(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`
  if (bytes < 1_000_000) return `${(bytes / 1_000).toFixed(1)} kB`
  return bytes < 1_000_000_000
    ? `${(bytes / 1_000_000).toFixed(1)} MB`
    : `${(bytes / 1_000_000_000).toFixed(2)} GB`
}

/** Milliseconds since `start` of `performance.now()`, as text. */
export function since(start: number): string {
  const ms = performance.now() - start
  return ms < 10_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`
}
