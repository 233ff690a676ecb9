import { queryOptions } from '@tanstack/react-query'
import type { Layer } from '../../ground/names.ts'
import { api, ok } from './client.ts'
import type { Named } from './pipelines.ts'
import { type DataOf, refresh, SLOW_MS } from './queries.ts'

const KEY = ['schedules']
const changed = () => refresh(KEY)

/** All schedules. */
export const schedulesQuery = () =>
  queryOptions({
    queryKey: KEY,
    queryFn: () => ok(api.schedules.get({ query: {} })),
    refetchInterval: SLOW_MS,
  })
export type Schedule = DataOf<typeof schedulesQuery>['schedules'][number]

export const createSchedule = ({ ns: namespace, layer, name: pipeline }: Named, cron: string) =>
  ok(api.schedules.post({ namespace, layer: layer as Layer, pipeline, cron })).then(changed)

export const enableSchedule = (id: string, enabled: boolean) =>
  ok(api.schedules({ id }).put({ enabled })).then(changed)

export const deleteSchedule = (id: string) => ok(api.schedules({ id }).delete()).then(changed)
