// How many requests were answered and how long they took, by route, method and status. Every request is counted here: the
// library's own counters look their labels up by a text they put together each time, which costs more than the rest.

/** From a point read to an upload; in seconds, as the format's users expect. */
export const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]

interface Tally {
  labels: string
  /** Answers by the bucket their time falls into, the last one being all that took longer. */
  buckets: number[]
  count: number
  sum: number
}

export interface Answered {
  method: string
  /** The route's pattern. What a client makes up must not become a time series. */
  path: string
  status: number
  seconds: number
}

export interface Answers {
  count(answer: Answered): void
  /** The text exposition format. */
  text(): string
}

/** `requests` is a counter's name, `duration` a histogram's. */
export function makeAnswers({ requests, duration }: { requests: string; duration: string }): Answers {
  const byPath = new Map<string, Map<string, Tally[]>>()

  function tallyOf({ method, path, status }: Answered): Tally {
    const byMethod = keptIn(byPath, path, () => new Map<string, Tally[]>())
    const byStatus = keptIn(byMethod, method, () => [])
    byStatus[status] ??= {
      labels: `method="${method}",path="${escaped(path)}",status="${status}"`,
      buckets: [...SECONDS.map(() => 0), 0],
      count: 0,
      sum: 0,
    }
    return byStatus[status]
  }

  return {
    count(answer) {
      const tally = tallyOf(answer)
      let bucket = 0
      while (answer.seconds > (SECONDS[bucket] ?? Number.POSITIVE_INFINITY)) bucket++
      tally.buckets[bucket] = (tally.buckets[bucket] ?? 0) + 1
      tally.count++
      tally.sum += answer.seconds
    },
    text() {
      const tallies = [...byPath.values()].flatMap((byMethod) =>
        [...byMethod.values()].flatMap((byStatus) => Object.values(byStatus)),
      )
      return [
        `# HELP ${requests} HTTP requests answered`,
        `# TYPE ${requests} counter`,
        ...tallies.map(({ labels, count }) => `${requests}{${labels}} ${count}`),
        '',
        `# HELP ${duration} Time to the response headers`,
        `# TYPE ${duration} histogram`,
        ...tallies.flatMap((tally) => histogramLines(duration, tally)),
        '',
      ].join('\n')
    },
  }
}

/** Buckets of this format hold all that took no longer than their bound. */
function histogramLines(name: string, { labels, buckets, count, sum }: Tally): string[] {
  let upTo = 0
  return [
    ...SECONDS.map((bound, index) => {
      upTo += buckets[index] ?? 0
      return `${name}_bucket{le="${bound}",${labels}} ${upTo}`
    }),
    `${name}_bucket{le="+Inf",${labels}} ${count}`,
    `${name}_sum{${labels}} ${sum}`,
    `${name}_count{${labels}} ${count}`,
  ]
}

function keptIn<Key, Value>(map: Map<Key, Value>, key: Key, make: () => Value): Value {
  const known = map.get(key)
  if (known !== undefined) return known
  const made = make()
  map.set(key, made)
  return made
}

const escaped = (text: string) => text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
