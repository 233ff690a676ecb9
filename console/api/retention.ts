import { queryOptions } from '@tanstack/react-query'
import type { RetentionOverrides } from '../../app/retention/schema.ts'
import { api, ok } from './client.ts'
import { type Named, pipelineAt } from './pipelines.ts'
import { type DataOf, refresh, SLOW_MS } from './queries.ts'

const KEY = ['retention']
const changed = () => refresh(KEY)
const retention = api.admin.retention

export const retentionStatusQuery = () =>
  queryOptions({
    queryKey: [...KEY, 'status'],
    queryFn: () => ok(retention.status.get()),
    refetchInterval: SLOW_MS,
  })

export const retentionConfigQuery = () =>
  queryOptions({ queryKey: [...KEY, 'config'], queryFn: () => ok(retention.config.get()) })

/** The objects that a tick would remove now. */
export const wouldRemove = async () =>
  (await ok(retention.run.post(undefined, { query: { dry_run: true } }))).would_remove ?? []
export type Removal = Awaited<ReturnType<typeof wouldRemove>>[number]

export const removeNow = () => ok(retention.run.post(undefined, { query: {} })).then(changed)

export const changeRetention = (settings: Record<string, number>) =>
  ok(retention.config.put(settings)).then(changed)

/** The settings of one pipeline, which override those of the service. */
export const pipelineRetentionQuery = (at: Named) =>
  queryOptions({
    queryKey: [...KEY, at.ns, at.layer, at.name],
    queryFn: () => ok(pipelineAt(at).retention.get()),
    staleTime: 0,
  })
export type PipelineRetention = DataOf<typeof pipelineRetentionQuery>

/** The next look at the settings reads them again, so nothing else does. */
export const overrideRetention = (at: Named, overrides: RetentionOverrides) =>
  ok(pipelineAt(at).retention.put(overrides))
