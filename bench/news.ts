import { listen } from '../app/runs/service.ts'
import type { Sql } from '../drizzle/client.ts'

/** Times of the notifications about a run, in milliseconds of this process's clock. */
interface RunNews {
  /** Time of the first notification, which arrives after the commit that made the run running. */
  firstAt: number
  endedAt: number
}

export type News = Awaited<ReturnType<typeof listenToRuns>>

/** Listens to the notifications of Postgres about runs. */
export async function listenToRuns(sql: Sql) {
  const announcedRuns = new Map<string, RunNews>()
  const waiting = new Map<string, (news: RunNews) => void>()
  let onNew: (id: string, news: RunNews) => void = () => {}
  const record = (id: string) => {
    const recorded = announcedRuns.get(id)
    if (recorded !== undefined) return recorded
    const news = { firstAt: performance.now(), endedAt: Number.NaN }
    announcedRuns.set(id, news)
    onNew(id, news)
    return news
  }
  await listen(sql, (announcement) => {
    if ('changed' in announcement) for (const id of announcement.changed) record(id)
    if (!('completed' in announcement)) return
    for (const { run_id } of announcement.completed) {
      const news = record(run_id)
      news.endedAt = performance.now()
      waiting.get(run_id)?.(news)
      waiting.delete(run_id)
    }
  })
  return {
    /** Resolves with both times when the run has ended. */
    of(id: string): Promise<RunNews> {
      const news = announcedRuns.get(id)
      if (news !== undefined && !Number.isNaN(news.endedAt)) return Promise.resolve(news)
      return new Promise((resolve) => waiting.set(id, resolve))
    },
    /** Resolves with the id of the next new run other than `other`, at its first notification. */
    nextBut: (other: string | null) =>
      new Promise<string>((resolve) => {
        onNew = (id) => {
          if (id === other) return
          onNew = () => {}
          resolve(id)
        }
      }),
  }
}
