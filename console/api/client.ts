// The API of the service, typed by its own routes. Only types are imported from there.
import { type Treaty, treaty } from '@elysiajs/eden'
import type { attentionRoutes } from '../../app/attention/routes.ts'
import type { auditRoutes } from '../../app/audit/routes.ts'
import type { branchRoutes, tagRoutes } from '../../app/branches/routes.ts'
import type { diffRoutes } from '../../app/diff/routes.ts'
import type { featureRoutes } from '../../app/features/routes.ts'
import type { commitRoutes, tableHistoryRoutes } from '../../app/history/routes.ts'
import type { inspectorRoutes } from '../../app/inspector/routes.ts'
import type { landingZoneRoutes } from '../../app/landing-zones/routes.ts'
import type { lineageRoutes } from '../../app/lineage/routes.ts'
import type { namespaceRoutes } from '../../app/namespaces/routes.ts'
import type { pipelineRoutes, previewRoutes, versionRoutes } from '../../app/pipelines/routes.ts'
import type { qualityTestRoutes } from '../../app/quality-tests/routes.ts'
import type { queryRoutes, schemaRoutes } from '../../app/query/routes.ts'
import type { replicaRoutes } from '../../app/replicas/routes.ts'
import type { retentionRoutes } from '../../app/retention/routes.ts'
import type { runRoutes } from '../../app/runs/routes.ts'
import type { scheduleRoutes } from '../../app/schedules/routes.ts'
import type { sharingRoutes } from '../../app/sharing/routes.ts'
import type { tableRoutes } from '../../app/tables/routes.ts'
import type { triggerRoutes } from '../../app/triggers/routes.ts'
import { ApiError, errorOf } from './errors.ts'
import { API, authorizedFetch, segment } from './request.ts'

type Routes<Make extends (...args: never[]) => unknown> =
  ReturnType<Make> extends { '~Routes': infer Table } ? Table : never

type All = Routes<typeof attentionRoutes> &
  Routes<typeof auditRoutes> &
  Routes<typeof branchRoutes> &
  Routes<typeof tagRoutes> &
  Routes<typeof diffRoutes> &
  Routes<typeof featureRoutes> &
  Routes<typeof commitRoutes> &
  Routes<typeof tableHistoryRoutes> &
  Routes<typeof inspectorRoutes> &
  Routes<typeof landingZoneRoutes> &
  Routes<typeof lineageRoutes> &
  Routes<typeof namespaceRoutes> &
  Routes<typeof pipelineRoutes> &
  Routes<typeof versionRoutes> &
  Routes<typeof previewRoutes> &
  Routes<typeof qualityTestRoutes> &
  Routes<typeof queryRoutes> &
  Routes<typeof schemaRoutes> &
  Routes<typeof replicaRoutes> &
  Routes<typeof retentionRoutes> &
  Routes<typeof runRoutes> &
  Routes<typeof scheduleRoutes> &
  Routes<typeof sharingRoutes> &
  Routes<typeof tableRoutes> &
  Routes<typeof triggerRoutes>

type Node = ((...args: readonly unknown[]) => unknown) & { readonly [name: string]: Node }

const METHODS = new Set(['get', 'head', 'post', 'put', 'patch', 'delete'])

/** The same client, which encodes path parameters. Eden does not. */
const encoding = (node: Node, name = ''): unknown =>
  new Proxy(node, {
    get: (_, next: string) => encoding(node[next] as Node, next),
    apply: (_target, _this, args) => {
      if (METHODS.has(name)) return node(...args)
      const [[key, value] = []] = Object.entries(args[0])
      return encoding(node({ [String(key)]: segment(String(value)) }) as Node)
    },
  })

/** One function for each operation, for example `api.runs({ id }).logs.get()`. */
export const api = encoding(
  treaty(API.href.replace(/\/$/, ''), {
    fetcher: authorizedFetch as typeof fetch,
    parseDate: false,
  }) as unknown as Node,
) as Treaty.Sign<All>

type Answer<Data> =
  | { data: Data; error: null; status: number }
  | { data: null; error: { value: unknown }; status: number; response: Response }

/** The data of an answer. Throws ApiError for every status other than 2xx. */
export async function ok<Data>(call: Promise<Answer<Data>>): Promise<NonNullable<Data>> {
  const answer = await call
  if (answer.error === null) return answer.data as NonNullable<Data>
  const { value } = answer.error
  // Eden passes an error of the fetcher on as the value.
  if (value instanceof ApiError) throw value
  throw errorOf(answer.status, value, answer.response?.headers ?? null)
}

/** The filters that are set. An empty text is no filter. */
export const given = <Filters extends object>(filters: Filters): Partial<Filters> =>
  Object.fromEntries(Object.entries(filters).filter(([, value]) => value)) as Partial<Filters>
