import { RUN_CHANGED, RUN_COMPLETED } from '../app/runs/service.ts'
import type { Sql } from '../drizzle/client.ts'

/** What has been heard of a run, as this process counts milliseconds. */
export interface RunNews {
  /** The first news of a run is that it is running, after the commit. */
  firstAt: number
  endedAt: number
}

export type News = Awaited<ReturnType<typeof listenToRuns>>

/** Hears of runs as any program beside the database can. */
export async function listenToRuns(sql: Sql) {
  const heard = new Map<string, RunNews>()
  const waiting = new Map<string, (news: RunNews) => void>()
  let onNew: (id: string, news: RunNews) => void = () => {}
  const hear = (id: string) => {
    const known = heard.get(id)
    if (known !== undefined) return known
    const news = { firstAt: performance.now(), endedAt: Number.NaN }
    heard.set(id, news)
    onNew(id, news)
    return news
  }
  await sql.listen(RUN_CHANGED, (payload) => {
    for (const id of JSON.parse(payload) as string[]) hear(id)
  })
  await sql.listen(RUN_COMPLETED, (payload) => {
    for (const { run_id } of JSON.parse(payload) as { run_id: string }[]) {
      const news = hear(run_id)
      news.endedAt = performance.now()
      waiting.get(run_id)?.(news)
      waiting.delete(run_id)
    }
  })
  return {
    /** Resolves when the run has ended. */
    of(id: string): Promise<RunNews> {
      const news = heard.get(id)
      if (news !== undefined && !Number.isNaN(news.endedAt)) return Promise.resolve(news)
      return new Promise((resolve) => waiting.set(id, resolve))
    },
    /** The next run that nobody has heard of before and that is not `other`. */
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
