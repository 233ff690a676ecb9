import { queryOptions } from '@tanstack/react-query'
import { api, type LayerName, ok } from './client.ts'
import type { Named } from './pipelines.ts'
import { type DataOf, refresh, SLOW_MS } from './queries.ts'

const KEY = ['schedules']

/** All schedules. */
export const schedulesQuery = () =>
  queryOptions({
    queryKey: KEY,
    queryFn: () => ok(api.schedules.get({ query: {} })),
    refetchInterval: SLOW_MS,
  })
export type Schedule = DataOf<typeof schedulesQuery>['schedules'][number]

export async function createSchedule({ ns: namespace, layer, name: pipeline }: Named, cron: string) {
  await ok(api.schedules.post({ namespace, layer: layer as LayerName, pipeline, cron }))
  await refresh(KEY)
}

export async function enableSchedule(id: string, enabled: boolean) {
  await ok(api.schedules({ id }).put({ enabled }))
  await refresh(KEY)
}

export async function deleteSchedule(id: string) {
  await ok(api.schedules({ id }).delete())
  await refresh(KEY)
}
