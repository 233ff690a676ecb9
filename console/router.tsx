// The addresses of the console, below the address of the page itself. A page is loaded when it is first opened.
import {
  createRootRoute,
  createRoute,
  createRouter,
  Link,
  type ResolveParams,
  redirect,
  type SearchSchemaInput,
} from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { attentionQuery } from './api/attention.ts'
import { auditQuery } from './api/audit.ts'
import { branchListQuery, branchQuery, openBranchesQuery } from './api/branches.ts'
import { now } from './api/clock.ts'
import {
  countsQuery,
  drawingsQuery,
  INSTANCE_FILTERS,
  instanceQuery,
  instancesQuery,
  machinesQuery,
} from './api/inspector.ts'
import { buildQuery, featuresQuery, healthQuery, metricsQuery, processesQuery } from './api/installation.ts'
import { zoneListQuery, zoneQuery } from './api/landing-zones.ts'
import { lineageSizeQuery } from './api/lineage.ts'
import { namespacesQuery } from './api/namespaces.ts'
import { pipelineListQuery, pipelineQuery } from './api/pipelines.ts'
import { type AnyQuery, prefetch } from './api/queries.ts'
import { CONSOLE } from './api/request.ts'
import { retentionConfigQuery, retentionStatusQuery } from './api/retention.ts'
import { dayRunsQuery, RUN_FILTERS, runFilterOf, runListQuery, runQuery } from './api/runs.ts'
import { TABLE_FILTERS, tableHistoryQuery, tableListQuery, tableQuery, versionIn } from './api/tables.ts'
import { tagsQuery } from './api/tags.ts'
import { progressQuery } from './api/tour.ts'
import { Waiting } from './design/loaded.tsx'
import { Empty, Page } from './design/surfaces.tsx'
import { machineOf, placeOf } from './pages/inspector/address.ts'
import { type Filters, filtersIn, paramsIn } from './shell/filters.ts'
import { lazyPart, PartError } from './shell/lazy-part.tsx'
import { Shell } from './shell/shell.tsx'

const root = createRootRoute({ component: Shell, notFoundComponent: NotFound })

/** A page loads its code and these queries at the same time, also when a link to it is hovered. */
const page = <const Path extends string, const Name extends string = never>(
  path: Path,
  load: () => Promise<{ default: () => ReactNode }>,
  {
    filters = [],
    data,
  }: {
    /** The parameters of the address after `?`. */
    filters?: readonly Name[]
    data: (params: ResolveParams<Path>, filters: Filters<Name>) => readonly AnyQuery[]
  },
) =>
  createRoute({
    getParentRoute: () => root,
    path,
    component: lazyPart(load),
    validateSearch: (search: Filters<Name> & SearchSchemaInput): Filters<Name> => filtersIn(search, filters),
    loaderDeps: ({ search }) => filtersIn(search, filters),
    loader: ({ params, deps }) => prefetch(data(params as ResolveParams<Path>, deps)),
  })

/** Addresses of the former page of the inspector lead to the console. Their part after `#` says what they show. */
const inspectorHome = createRoute({
  getParentRoute: () => root,
  path: '/inspector',
  validateSearch: () => ({}),
  loader: ({ location }) => {
    const place = placeOf(location.hash)
    const { machine } = place
    throw place.id === null
      ? redirect({ to: '/inspector/$machine', params: { machine }, search: place.filter, replace: true })
      : redirect({
          to: '/inspector/$machine/$id',
          params: { machine, id: place.id },
          search: place.step === undefined ? {} : { step: place.step },
          replace: true,
        })
  },
})

const routeTree = root.addChildren([
  page('/', () => import('./pages/overview/overview.tsx'), {
    data: () => [dayRunsQuery(now), attentionQuery(), healthQuery(), featuresQuery()],
  }),
  page('/welcome', () => import('./pages/welcome/welcome.tsx'), {
    filters: ['namespace'],
    data: (_, { namespace }) => [progressQuery(namespace)],
  }),
  page('/pipelines', () => import('./pages/pipelines/list.tsx'), {
    filters: ['search', 'namespace', 'layer', 'state', 'tag', 'offset', 'create'],
    data: (_, filters) => [pipelineListQuery(filters), namespacesQuery()],
  }),
  page('/pipelines/$ns/$layer/$name', () => import('./pages/pipelines/pipeline.tsx'), {
    filters: ['tab'],
    data: (at) => [pipelineQuery(at)],
  }),
  page('/runs', () => import('./pages/runs/list.tsx'), {
    filters: RUN_FILTERS,
    data: (_, filters) => [runListQuery(runFilterOf(filters), 0), namespacesQuery(), openBranchesQuery()],
  }),
  page('/runs/$id', () => import('./pages/runs/run.tsx'), { data: ({ id }) => [runQuery(id)] }),
  inspectorHome,
  page('/inspector/$machine', () => import('./pages/inspector/list.tsx'), {
    filters: INSTANCE_FILTERS,
    data(params, filter) {
      const machine = machineOf(params.machine)
      return [
        machinesQuery(),
        drawingsQuery(machine),
        instancesQuery(machine, filter, 0),
        countsQuery(machine),
        namespacesQuery(),
      ]
    },
  }),
  page('/inspector/$machine/$id', () => import('./pages/inspector/instance.tsx'), {
    filters: ['step'],
    data({ machine: name, id }) {
      const machine = machineOf(name)
      return [machinesQuery(), drawingsQuery(machine), instanceQuery(machine, id)]
    },
  }),
  page('/lineage', () => import('./pages/lineage/lineage.tsx'), {
    filters: ['namespace', 'node', 'search', 'focus', 'around', 'colour'],
    data: () => [lineageSizeQuery()],
  }),
  page('/lake', () => import('./pages/lake/list.tsx'), {
    filters: TABLE_FILTERS,
    data: (_, filters) => [tableListQuery(filters), namespacesQuery(), openBranchesQuery()],
  }),
  page('/lake/$ns/$layer/$name', () => import('./pages/lake/table.tsx'), {
    filters: ['branch', 'as_of', 'offset'],
    data: (at, filters) => [
      tableQuery(at, versionIn(filters)),
      tableHistoryQuery(at, filters.branch),
      openBranchesQuery(),
    ],
  }),
  page('/branches', () => import('./pages/branches/list.tsx'), {
    filters: ['search', 'status', 'offset'],
    data: (_, filters) => [branchListQuery(filters), tagsQuery()],
  }),
  page('/branches/$branch', () => import('./pages/branches/branch.tsx'), {
    data: ({ branch }) => [branchQuery(branch)],
  }),
  page('/query', () => import('./pages/query/query.tsx'), {
    filters: ['sql', 'branch', 'as_of', 'limit'],
    data: () => [openBranchesQuery()],
  }),
  page('/landing-zones', () => import('./pages/landing/list.tsx'), { data: () => [zoneListQuery()] }),
  page('/landing-zones/$ns/$name', () => import('./pages/landing/zone.tsx'), {
    filters: ['tab', 'file', 'offset'],
    data: (at) => [zoneQuery(at)],
  }),
  page('/audit', () => import('./pages/admin/audit.tsx'), {
    filters: ['search', 'offset'],
    data: (_, { offset }) => [auditQuery(offset)],
  }),
  page('/retention', () => import('./pages/admin/retention.tsx'), {
    data: () => [retentionStatusQuery(), retentionConfigQuery()],
  }),
  page('/sharing', () => import('./pages/admin/sharing.tsx'), {
    filters: ['kind', 'id', 'search'],
    data: () => [featuresQuery()],
  }),
  page('/settings', () => import('./pages/admin/settings.tsx'), {
    data: () => [featuresQuery(), buildQuery(), namespacesQuery()],
  }),
  page('/system', () => import('./pages/admin/system.tsx'), {
    data: () => [healthQuery(), metricsQuery(), processesQuery()],
  }),
])

export const router = createRouter({
  routeTree,
  basepath: CONSOLE.pathname,
  // Each parameter is a text, so it needs no quotes.
  parseSearch: paramsIn,
  stringifySearch(search) {
    const text = String(new URLSearchParams(Object.entries(filtersIn(search)) as [string, string][]))
    return text === '' ? '' : `?${text}`
  },
  defaultPreload: 'intent',
  // Each preload asks the queries, which know whether their data is fresh.
  defaultPreloadStaleTime: 0,
  defaultPendingComponent: () => <Waiting />,
  defaultErrorComponent: PartError,
  scrollRestoration: true,
  // A page about another thing starts anew: nothing of the thing before stays in its state.
  defaultRemountDeps: ({ params }) => params,
})

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
}

function NotFound() {
  return (
    <Page title="Not found">
      <Empty
        icon="search"
        title="The console has no such page"
        actions={<Link to="/">Go to the overview</Link>}
      />
    </Page>
  )
}
