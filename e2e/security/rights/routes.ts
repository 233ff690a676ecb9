// Every route with the right that it needs, as requests on the names of a world. The rights of the API come from the table of
// access rules, which the OpenAPI document repeats as `x-access`. Iceberg has one rule for all of its routes.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fresh } from '../../kit/resources.ts'
import { type Right, TOUCH, type World } from './world.ts'

type Needed = 'nothing' | 'ownership' | 'administrator' | { of: 'thing' | 'space'; right: Right }

export interface Request {
  /** Method and path as documented. */
  route: string
  needed: Needed
  path(world: World): string
  body?(world: World): object | FormData
  /** A permitted caller gets 404, because an earlier request removed the resource. */
  isGone?: true
}

const thing = (right: Right): Needed => ({ of: 'thing', right })
const space = (right: Right): Needed => ({ of: 'space', right })

const API = '/api/v1'
const P = `${API}/pipelines/{ns}/{layer}/{name}`

interface Documented {
  paths: Record<string, Record<string, Operation>>
}
interface Operation {
  'x-access'?: string
  requestBody?: { content: Record<string, { example?: object }> }
}

/** The routes of the OpenAPI document with an access rule: first those that keep the world. */
export function documentedRequests(): Request[] {
  const text = readFileSync(join(import.meta.dirname, '../../../docs/openapi.json'), 'utf8')
  const { paths }: Documented = JSON.parse(text)
  const requests = Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).flatMap(([method, operation]): Request[] => {
      const access = operation['x-access']
      if (access === undefined) return []
      const route = `${method.toUpperCase()} ${path}`
      const body = bodyOf(path, operation.requestBody?.content)
      const query = LISTS[route]
      const address = (world: World) => filled(path, world) + (query?.(world) ?? '')
      return [{ route, needed: neededFor(access), path: address, body }]
    }),
  )
  return requests.sort((a, b) => turnOf(a.route) - turnOf(b.route))
}

/** Later for requests that add rights, end the branch, or remove what other requests need. */
function turnOf(route: string): number {
  if (/^DELETE .*(\}\/\{name\}|namespaces\/\{name\})$/.test(route)) return 3
  // A part goes before its whole.
  if (route.startsWith('DELETE ')) return 2 - route.split('/').length / 100
  return /\/merge$|^POST \/api\/v1\/namespaces$/.test(route) ? 1 : 0
}

/** Lists with a required parameter. */
const LISTS: Record<string, (world: World) => string> = {
  [`GET ${API}/files`]: ({ namespace }) => `?prefix=${namespace}/`,
  [`GET ${API}/sharing`]: ({ pipelineId }) => `?resource_type=pipeline&resource_id=${pipelineId}`,
}

/** The right that a summary of the access rules names. An unknown summary fails, so that no rule is left out. */
function neededFor(access: string): Needed {
  if (access.startsWith('any authenticated caller')) return 'nothing'
  if (/^administrators$|^the creator of the (branch|tag),/.test(access)) return 'administrator'
  if (/^the (creator of the grant, the )?owner of the resource,/.test(access)) return 'ownership'
  const [, right, of] =
    /^(?:read or )?(read|write|admin) on (?:the|at least one) (namespace|pipeline|landing zone|resource)\b/.exec(
      access,
    ) ?? []
  if (right === undefined)
    throw new Error(`e2e/security/rights/routes.ts does not know the access rule "${access}"`)
  return { of: of === 'namespace' ? 'space' : 'thing', right: right as Right }
}

function filled(path: string, world: World): string {
  const isZone = path.startsWith(`${API}/landing-zones`)
  const [, , , resource = ''] = path.split('/')
  const ids: Record<string, string> = {
    'landing-zones': world.fileId,
    pipelines: world.triggerId,
    schedules: world.scheduleId,
    sharing: world.grantId,
  }
  return path
    .replace('/namespaces/{name}', `/namespaces/${world.namespace}`)
    .replace('/tags/{name}', `/tags/${world.tag}`)
    .replace('{branch}', /\/(rebase|\{branch\})$/.test(path) ? world.branch : world.changed)
    .replace('{ns}', world.namespace)
    .replace('{layer}', 'bronze')
    .replace('{name}', isZone ? world.zone : world.pipeline)
    .replace('{machine}', 'run')
    .replace('{number}', '1')
    .replace('{testName}', 'fixed')
    .replace('{filename}', 'sample.csv')
    .replace('{path}', `${world.namespace}/pipelines/bronze/${world.pipeline}/notes.md`)
    .replace('{id}', ids[resource] ?? world.runId)
}

/** The example of the document, with the names of the world in place of its own. Fields that name anything else are left out. */
function bodyOf(path: string, content: Record<string, { example?: object }> = {}): Request['body'] {
  const [[type, { example }] = ['', {}]] = Object.entries(content)
  const target = path.endsWith('/upload') ? fileOf : () => null
  if (type === 'multipart/form-data') return (world) => form(target(world))
  if (example === undefined) return undefined
  return (world) => {
    const names: Record<string, unknown> = {
      namespace: world.namespace,
      layer: 'bronze',
      name: fresh('made'),
      pipeline: world.pipeline,
      zone_name: world.zone,
      resource_id: world.pipelineId,
      grantee_id: 'somebody',
      // The owner stays the same, so that later requests find the same rights.
      to_user_id: world.owner,
      commit: world.commit,
      sql: 'select 1',
      code: 'select 1 as a',
      source: undefined,
      sample_files: undefined,
      branch: undefined,
      as_of: undefined,
    }
    return JSON.parse(JSON.stringify(example, (key, value) => (key in names ? names[key] : value)))
  }
}

const fileOf = ({ namespace, pipeline }: World) => `${namespace}/pipelines/bronze/${pipeline}/up.txt`

function form(path: string | null): FormData {
  const data = new FormData()
  if (path !== null) data.set('path', path)
  data.set('file', new File(['a,b\n1,2\n'], 'a.csv'))
  return data
}

/** Requests whose right depends on what the example of the document does not have. */
export const VARIANTS: Request[] = [
  // A preview without code executes the stored draft.
  {
    route: `POST ${P}/preview`,
    needed: thing('read'),
    path: (world) => filled(`${P}/preview`, world),
    body: () => ({}),
  },
  ...(['GET', 'PUT', 'DELETE'] as const).flatMap((method): Request[] =>
    [thing, space].map((of) => ({
      route: `${method} ${API}/files/{path}`,
      needed: of(method === 'GET' ? 'read' : 'write'),
      path: ({ namespace, zone }) =>
        `${API}/files/${namespace}/${of === thing ? `landing/${zone}/` : ''}notes.md`,
      body: method === 'PUT' ? () => ({ content: 'x' }) : undefined,
      // Only the PUT before it makes the file.
      isGone: method === 'GET' ? true : undefined,
    })),
  ),
]

const V = '/v1/{prefix}'
const N = `${V}/namespaces/{namespace}`
const SCHEMA = { type: 'struct', fields: [{ id: 1, name: 'id', type: 'long', required: false }] }
const VERSION = {
  summary: {},
  representations: [{ type: 'sql', sql: 'select 1 as a', dialect: 'duckdb' }],
  'default-namespace': [],
}
const id = (namespace: string, layer: string, name: string) => ({ namespace: [namespace, layer], name })
const tableOf = ({ namespace, pipeline }: World) => id(namespace, 'bronze', pipeline)
const viewOf = ({ namespace, view }: World) => id(namespace, 'gold', view)

/** Bodies of endpoints, and rights other than read for GET and write for the other methods. */
const ICEBERG: Record<string, { needed?: Needed; body?: Request['body']; isGone?: true }> = {
  'GET /v1/config': { needed: 'nothing' },
  [`GET ${V}/namespaces`]: { needed: 'nothing' },
  [`POST ${V}/namespaces`]: { needed: 'nothing', body: () => ({ namespace: [fresh('made')] }) },
  [`POST ${N}/properties`]: { needed: space('write'), body: () => ({ updates: { touched: 'yes' } }) },
  [`POST ${N}/tables`]: { needed: space('write'), body: () => ({ name: 'made_table', schema: SCHEMA }) },
  [`POST ${N}/tables/{table}`]: { body: () => TOUCH },
  [`POST ${N}/tables/{table}/metrics`]: {
    needed: thing('read'),
    body: () => ({ 'report-type': 'scan-report' }),
  },
  [`POST ${N}/register`]: {
    needed: space('write'),
    body: ({ location }) => ({ name: 'registered', 'metadata-location': location }),
  },
  [`POST ${V}/transactions/commit`]: {
    body: (world) => ({ 'table-changes': [{ ...TOUCH, identifier: tableOf(world) }] }),
  },
  [`POST ${N}/views`]: {
    body: ({ view }) => ({ name: view, schema: SCHEMA, 'view-version': VERSION, properties: {} }),
  },
  [`POST ${N}/views/{view}`]: { body: () => ({ updates: [] }) },
  [`POST ${V}/views/rename`]: {
    needed: space('write'),
    body: (world) => ({ source: viewOf(world), destination: id(world.namespace, 'gold', 'renamed_view') }),
  },
  [`POST ${V}/tables/rename`]: {
    needed: space('write'),
    body: (world) => ({ source: tableOf(world), destination: id(world.namespace, 'bronze', 'renamed') }),
  },
  // The renamed table and view are gone.
  [`DELETE ${N}/tables/{table}`]: { isGone: true },
  [`DELETE ${N}/views/{view}`]: { isGone: true },
  [`DELETE ${N}`]: { needed: space('admin') },
}

/** The endpoints that the Iceberg catalog says it has, on one branch. */
export function icebergRequests(endpoints: readonly string[], branchOf: (world: World) => string): Request[] {
  const rank = ({ route }: Request) =>
    ['GET', 'HEAD', 'POST', 'DELETE'].indexOf(route.split(' ')[0] ?? '') + (/rename/.test(route) ? 0.5 : 0)
  const requests = endpoints.map((route): Request => {
    const [method = '', pattern = ''] = route.split(' ')
    const isRead = ['GET', 'HEAD'].includes(method)
    const path = (world: World) =>
      `/iceberg${pattern}`
        .replace('{prefix}', branchOf(world))
        .replace(/\{namespace\}(\/properties)?$/, `${world.namespace}$1`)
        .replace('{namespace}', `${world.namespace}%1F${pattern.includes('/views') ? 'gold' : 'bronze'}`)
        .replace('{table}', world.pipeline)
        .replace('{view}', world.view)
    return { route, needed: thing(isRead ? 'read' : 'write'), path, ...ICEBERG[route] }
  })
  return requests.sort((a, b) => rank(a) - rank(b))
}

/** Writes of Bob that name something of his beside something of Ada, with the status of the refusal. */
export function mixedRequests(bob: World): (Request & { status: number })[] {
  const write = (path: string, status: number, body: (ada: World) => object) => ({
    route: `POST ${path}`,
    needed: thing('write'),
    path: () => path,
    body,
    status,
  })
  const iceberg = '/iceberg/v1/sluice'
  const tables = `${iceberg}/namespaces/${bob.namespace}%1Fbronze`
  const changeOf = (world: World) => ({ ...TOUCH, identifier: tableOf(world) })
  const taken = id(bob.namespace, 'bronze', 'taken')
  return [
    write(`${iceberg}/transactions/commit`, 404, (ada) => ({ 'table-changes': [bob, ada].map(changeOf) })),
    write(`${iceberg}/transactions/commit`, 404, (ada) => ({ 'table-changes': [ada, bob].map(changeOf) })),
    write(`${iceberg}/tables/rename`, 404, (ada) => ({ source: tableOf(ada), destination: taken })),
    write(`${iceberg}/tables/rename`, 404, (ada) => ({ source: tableOf(bob), destination: tableOf(ada) })),
    write(`${tables}/register`, 400, ({ location }) => ({ name: 'taken', 'metadata-location': location })),
    write(`${tables}/tables`, 400, ({ location }) => ({
      name: 'taken',
      schema: SCHEMA,
      location: location.replace(/\/commits\/.*/, ''),
    })),
    // A trigger reveals events of its source.
    write(filled(`${P}/triggers`, bob), 404, ({ namespace, pipeline }) => ({
      type: 'pipeline_success',
      config: { namespace, layer: 'bronze', pipeline },
    })),
    write(filled(`${P}/triggers`, bob), 404, ({ namespace, zone }) => ({
      type: 'landing_zone_upload',
      config: { namespace, zone_name: zone },
    })),
    write(filled(`${P}/preview`, bob), 400, ({ namespace, zone }) => ({
      code: 'select 1 as a',
      sample_files: [`${namespace}/landing/${zone}/_samples/sample.csv`],
    })),
  ]
}
