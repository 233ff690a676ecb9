// The service's description of itself: its edition, its build, the health of its parts, and its processes.
import { queryOptions } from '@tanstack/react-query'
import { api, ok } from './client.ts'
import { samplesIn } from './metrics.ts'
import { LIVE_MS, SLOW_MS } from './queries.ts'
import { accepted, authorizedFetch, ROOT } from './request.ts'

const atRoot = (address: string) => authorizedFetch(new URL(address, ROOT))

export const featuresQuery = () =>
  queryOptions({ queryKey: ['features'], queryFn: () => ok(api.features.get()) })

interface Build {
  version: string
  git_commit: string
  build_time: string
}

export const buildQuery = () =>
  queryOptions({
    queryKey: ['build'],
    queryFn: async (): Promise<Build> => (await accepted(await atRoot('health/live'))).json(),
  })

export interface Health {
  status: string
  services: Record<string, string>
  python?: { sandbox: string; version: string } | null
  engines?: Record<string, string>
  details: Record<string, unknown>
}

/** The state of each part. The answer has the same shape when a part is missing and its status is 503. */
export const healthQuery = () =>
  queryOptions({
    queryKey: ['health'],
    queryFn: async (): Promise<Health> => {
      const response = await atRoot('health/ready')
      return (response.status === 503 ? response : await accepted(response)).json()
    },
    refetchInterval: SLOW_MS / 3,
  })

export const metricsQuery = () =>
  queryOptions({
    queryKey: ['metrics'],
    queryFn: async () => samplesIn(await (await accepted(await atRoot('metrics'))).text()),
    refetchInterval: LIVE_MS,
  })

/** Replicas of the service, and runners. */
export const processesQuery = () =>
  queryOptions({
    queryKey: ['replicas'],
    queryFn: () => ok(api.admin.replicas.get()),
    refetchInterval: LIVE_MS,
  })
