// The addresses of the console, below the address of the page itself. A page is loaded when it is first opened.
import {
  createRootRoute,
  createRoute,
  createRouter,
  Link,
  type SearchSchemaInput,
} from '@tanstack/react-router'
import { CONSOLE } from './api/request.ts'
import { Waiting } from './design/loaded.tsx'
import { Empty, Page } from './design/surfaces.tsx'
import { type Filters, filtersIn } from './shell/filters.ts'
import { lazyPart, PartError } from './shell/lazy-part.tsx'
import { Shell } from './shell/shell.tsx'

const root = createRootRoute({ component: Shell, notFoundComponent: NotFound })

const page = <const Path extends string>(
  path: Path,
  load: () => Promise<{ default: () => React.ReactNode }>,
) =>
  createRoute({
    getParentRoute: () => root,
    path,
    component: lazyPart(load),
    validateSearch: (search: Filters & SearchSchemaInput): Filters => filtersIn(search),
  })

const routeTree = root.addChildren([
  page('/', () => import('./pages/overview/overview.tsx')),
  page('/welcome', () => import('./pages/welcome/welcome.tsx')),
  page('/pipelines', () => import('./pages/pipelines/list.tsx')),
  page('/pipelines/$ns/$layer/$name', () => import('./pages/pipelines/pipeline.tsx')),
  page('/runs', () => import('./pages/runs/list.tsx')),
  page('/runs/$id', () => import('./pages/runs/run.tsx')),
  page('/lineage', () => import('./pages/lineage/lineage.tsx')),
  page('/lake', () => import('./pages/lake/list.tsx')),
  page('/lake/$ns/$layer/$name', () => import('./pages/lake/table.tsx')),
  page('/branches', () => import('./pages/branches/list.tsx')),
  page('/branches/$branch', () => import('./pages/branches/branch.tsx')),
  page('/query', () => import('./pages/query/query.tsx')),
  page('/landing-zones', () => import('./pages/landing/list.tsx')),
  page('/landing-zones/$ns/$name', () => import('./pages/landing/zone.tsx')),
  page('/audit', () => import('./pages/admin/audit.tsx')),
  page('/retention', () => import('./pages/admin/retention.tsx')),
  page('/sharing', () => import('./pages/admin/sharing.tsx')),
  page('/settings', () => import('./pages/admin/settings.tsx')),
  page('/system', () => import('./pages/admin/system.tsx')),
])

export const router = createRouter({
  routeTree,
  basepath: CONSOLE.pathname,
  defaultPreload: 'intent',
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
