// Attack class: object-level authorization of the Iceberg REST catalog. A stranger gets for tables, views and namespaces of
// another user the answers of missing names. A reader loads them, and writes nothing. See e2e/security/matrix.spec.ts for the API.
import { expect, test } from '@playwright/test'
import { canary, type Lake, type Names, startLake } from './iceberg-users.ts'
import type { Caller } from './pro-service.ts'

const V = '/iceberg/v1'
const N = `${V}/:prefix/namespaces`
const T = `${N}/:namespace/tables`
const SCHEMA = { type: 'struct', fields: [{ id: 1, name: 'id', type: 'long', required: false }] }
const set = { updates: [{ action: 'set-properties', updates: { touched: 'yes' } }], requirements: [] }
const id = ({ namespace }: Names, name: string) => ({ namespace: [namespace, 'gold'], name })
/** Names that a case creates. */
const MADE = { table: 'made_table', renamed: 'renamed_table', registered: 'registered_table' }

interface Case {
  route: string
  /** The path, if the route's parameters are not those of the table and its namespace. */
  path?: (names: Names) => string
  body?: (names: Names, bobs: Names) => object
  /** Status for readers and owners on a branch. */
  reader: number
  owner: number
  /** The status for strangers, if it is not 404. */
  stranger?: number
  /** The request creates a missing name, so that the names of namespaces are no secret. */
  tells?: true
  /** The namespace itself is the target: not for the shared one. */
  ofNamespace?: true
}

const VERSION = {
  summary: {},
  representations: [{ type: 'sql', sql: 'select 1 as a', dialect: 'duckdb' }],
  'default-namespace': [],
}

/** In the order of the owner, whose requests succeed: nothing is refused for its form. */
const CASES: Case[] = [
  { route: `GET ${V}/config`, reader: 200, owner: 200, stranger: 200 },
  { route: `GET ${N}`, reader: 200, owner: 200, stranger: 200 },
  { route: `GET ${N}`, path: ({ namespace }) => `/namespaces?parent=${namespace}`, reader: 200, owner: 200 },
  { route: `GET ${N}/:namespace`, reader: 200, owner: 200 },
  { route: `HEAD ${N}/:namespace`, reader: 204, owner: 204 },
  { route: `GET ${T}`, reader: 200, owner: 200 },
  { route: `GET ${T}/:table`, reader: 200, owner: 200 },
  { route: `HEAD ${T}/:table`, reader: 204, owner: 204 },
  { route: `GET ${T}/:table/credentials`, reader: 200, owner: 200 },
  { route: `GET ${N}/:namespace/views`, reader: 200, owner: 200 },
  { route: `GET ${N}/:namespace/views/:view`, reader: 200, owner: 200 },
  { route: `HEAD ${N}/:namespace/views/:view`, reader: 204, owner: 204 },
  {
    route: `POST ${T}/:table/metrics`,
    body: () => ({ 'report-type': 'scan-report' }),
    reader: 204,
    owner: 204,
  },
  {
    route: `POST ${N}/:namespace/views`,
    body: (names) => ({ name: names.view, schema: SCHEMA, 'view-version': VERSION, properties: {} }),
    reader: 403,
    owner: 409,
  },
  { route: `POST ${N}/:namespace/views/:view`, body: () => ({ updates: [] }), reader: 403, owner: 200 },
  {
    route: `POST ${V}/:prefix/views/rename`,
    body: (names) => ({ source: id(names, names.view), destination: id(names, names.table) }),
    reader: 403,
    owner: 409,
  },
  {
    route: `POST ${N}`,
    body: ({ namespace }) => ({ namespace: [namespace] }),
    reader: 409,
    owner: 409,
    stranger: 409,
    tells: true,
    ofNamespace: true,
  },
  {
    route: `POST ${N}/:namespace/properties`,
    body: () => ({ updates: { touched: 'yes' } }),
    reader: 403,
    owner: 200,
    ofNamespace: true,
  },
  {
    route: `POST ${T}`,
    body: () => ({ name: MADE.table, schema: SCHEMA }),
    reader: 403,
    owner: 200,
  },
  {
    route: `POST ${T}`,
    body: () => ({ name: 'staged', schema: SCHEMA, 'stage-create': true }),
    reader: 403,
    owner: 200,
  },
  { route: `POST ${T}`, body: ({ table }) => ({ name: table, schema: SCHEMA }), reader: 403, owner: 409 },
  { route: `POST ${T}/:table`, body: () => set, reader: 403, owner: 200 },
  {
    route: `POST ${T}/:table`,
    body: () => ({ requirements: [{ type: 'assert-create' }], updates: [] }),
    reader: 403,
    owner: 409,
  },
  {
    route: `POST ${V}/:prefix/transactions/commit`,
    body: (names) => ({ 'table-changes': [{ ...set, identifier: id(names, names.table) }] }),
    reader: 403,
    owner: 204,
  },
  {
    route: `POST ${N}/:namespace/register`,
    body: ({ file }) => ({ name: MADE.registered, 'metadata-location': file }),
    reader: 403,
    owner: 409,
  },
  {
    route: `POST ${V}/:prefix/tables/rename`,
    body: (names) => ({ source: id(names, names.table), destination: id(names, MADE.renamed) }),
    reader: 403,
    owner: 204,
  },
  { route: `DELETE ${N}/:namespace/views/:view`, reader: 403, owner: 204 },
  {
    route: `DELETE ${T}/:table`,
    path: ({ namespace }) => `/namespaces/${namespace}%1Fgold/tables/${MADE.renamed}`,
    reader: 403,
    owner: 204,
  },
  { route: `DELETE ${T}/:table`, reader: 403, owner: 404 },
  { route: `DELETE ${N}/:namespace`, reader: 403, owner: 409, ofNamespace: true },
]

/** Writes of Bob that name something of his beside something of Ada. */
const MIXED: Case[] = [
  ...[false, true].map(
    (isReversed): Case => ({
      route: `POST ${V}/:prefix/transactions/commit`,
      body: (names, bobs) => {
        const changes = [bobs, names].map((each) => ({ ...set, identifier: id(each, each.table) }))
        return { 'table-changes': isReversed ? changes.reverse() : changes }
      },
      reader: 404,
      owner: 404,
    }),
  ),
  {
    route: `POST ${V}/:prefix/tables/rename`,
    body: (names, bobs) => ({ source: id(names, names.table), destination: id(bobs, 'taken') }),
    reader: 404,
    owner: 404,
  },
  {
    route: `POST ${V}/:prefix/tables/rename`,
    body: (names, bobs) => ({ source: id(bobs, bobs.table), destination: id(names, names.table) }),
    reader: 404,
    owner: 404,
  },
  {
    route: `POST ${N}/:namespace/register`,
    path: () => '/namespaces/HIS%1Fgold/register',
    body: ({ file }) => ({ name: 'taken', 'metadata-location': file }),
    reader: 404,
    owner: 404,
    stranger: 400,
  },
  {
    route: `POST ${T}`,
    path: () => '/namespaces/HIS%1Fgold/tables',
    // The location is the directory of Ada's table.
    body: ({ file }) => ({ name: 'taken', schema: SCHEMA, location: file.replace(/\/commits\/.*/, '') }),
    reader: 404,
    owner: 404,
    stranger: 400,
  },
]

const isWrite = ({ route }: Case) => /^(POST|DELETE) /.test(route) && !route.endsWith('/metrics')

for (const writes of ['off', 'on'] as const)
  test.describe(`with ICEBERG_MAIN_WRITES=${writes}`, () => {
    let lake: Lake
    test.beforeAll(async () => {
      lake = await startLake({ ICEBERG_MAIN_WRITES: writes })
    })
    test.afterAll(async () => {
      await lake?.service.stop()
    })

    async function ask(caller: Caller, prefix: string, { route, path, body }: Case, names: Names) {
      const [method = '', pattern = ''] = route.split(' ')
      const { namespace, table, view } = names
      const isParent = /:namespace(\/properties)?$/.test(pattern)
      const target = path
        ? `${V}/${prefix}${path(names).replace('HIS', lake.bobs.namespace)}`
        : pattern
            .replace(':prefix', prefix)
            .replace(':namespace', isParent ? namespace : `${namespace}%1Fgold`)
            .replace(':table', table)
            .replace(':view', view)
      const { status, text } = await lake.service.ask(caller, method, target, body?.(names, lake.bobs))
      return { status, text, type: /"type":"(\w+)"/.exec(text)?.[1] }
    }

    /** All that Ada and Bob see on main and the branch. */
    async function everything(): Promise<string[]> {
      const { ada, bob, own, shared, bobs, service } = lake
      const found: string[] = []
      for (const [caller, places] of [
        [ada, [own, shared]],
        [bob, [bobs]],
      ] as const)
        for (const prefix of ['sluice', 'sluice.dev'])
          for (const { namespace, table, view } of places) {
            const at = `${V}/${prefix}/namespaces/${namespace}`
            for (const path of [
              '',
              '%1Fgold/tables',
              '%1Fgold/views',
              `%1Fgold/tables/${table}`,
              `%1Fgold/views/${view}`,
            ])
              found.push(JSON.stringify(await service.must(200, caller, 'GET', at + path)))
          }
      const { commits_ahead, tables_changed } = await service.must(200, ada, 'GET', '/api/v1/branches/dev')
      const { namespaces } = await service.must(200, service.root, 'GET', '/api/v1/namespaces')
      return [...found, JSON.stringify([commits_ahead, tables_changed, namespaces])]
    }

    /** Names like these that nobody has. The shared namespace exists for everybody. */
    function missing(names: Names): Names {
      const [table, view] = [canary(), canary()]
      const namespace = names.namespace === 'default' ? 'default' : canary()
      const file = names.file.replace(names.namespace, namespace).replace(names.table, table)
      return { namespace, table, view, file }
    }

    const masked = (text: string, { namespace, table, view }: Names) =>
      text
        .replaceAll(table, 'TABLE')
        .replaceAll(view, 'VIEW')
        .replaceAll(namespace, namespace === 'default' ? 'default' : 'NAMESPACE')

    for (const prefix of ['sluice.dev', 'sluice'])
      for (const place of ['own', 'shared'] as const)
        test(`a stranger finds nothing of another user in ${prefix}, in the ${place} namespace`, async () => {
          const { bob, secret } = lake
          const names = lake[place]
          const before = await everything()
          for (const each of [...CASES, ...MIXED]) {
            if (each.ofNamespace && place === 'shared') continue
            const twin = missing(names)
            const hidden = await ask(bob, prefix, each, names)
            const absent = each.tells ? null : await ask(bob, prefix, each, twin)
            const what = [each.route, each.body?.(names, lake.bobs)]
            const isReadOnly = writes === 'off' && prefix === 'sluice' && isWrite(each)
            if (place === 'own' && !isReadOnly)
              expect([...what, hidden.status]).toEqual([...what, each.stranger ?? 404])
            if (absent !== null)
              expect([...what, hidden.status, masked(hidden.text, names)]).toEqual([
                ...what,
                absent.status,
                masked(absent.text, twin),
              ])
            if (isWrite(each)) expect([...what, hidden.status >= 400]).toEqual([...what, true])
            const sent = JSON.stringify(what) + each.route
            for (const name of [secret, ...Object.values(lake.own), ...Object.values(lake.shared)])
              if (name !== 'default' && !sent.includes(name) && !Object.values(names).includes(name))
                expect([...what, hidden.text.includes(name)]).toEqual([...what, false])
            if (
              each.route.startsWith('GET ') &&
              !each.route.includes('/:table') &&
              !each.route.includes('/:view')
            )
              for (const name of [names.table, names.view, secret]) expect(hidden.text).not.toContain(name)
          }
          expect(await everything()).toEqual(before)
        })

    for (const prefix of ['sluice.dev', 'sluice'])
      test(`a reader loads from ${prefix} and writes nothing`, async () => {
        const { carl, own, shared, secret } = lake
        const before = await everything()
        for (const names of [own, shared])
          for (const each of CASES) {
            if (each.ofNamespace && names === shared) continue
            const found = await ask(carl, prefix, each, names)
            const isReadOnly = writes === 'off' && prefix === 'sluice' && isWrite(each)
            const isRenamed = each.path !== undefined && isWrite(each)
            const status = isReadOnly ? 403 : isRenamed ? 404 : each.reader
            expect([each.route, found.status]).toEqual([each.route, status])
            if (status === 403) expect(found.type).toBe('ForbiddenException')
            expect([each.route, found.text.includes(secret)]).toEqual([each.route, false])
          }
        expect(await everything()).toEqual(before)
      })

    test('each endpoint of the catalog has a case', async () => {
      const { endpoints } = await lake.service.must(200, lake.bob, 'GET', `${V}/config`)
      const tested = CASES.map(({ route }) => route.replace(V, '/v1').replace(/:(\w+)/g, '{$1}'))
      expect(endpoints).toContain('DELETE /v1/{prefix}/namespaces/{namespace}')
      expect((endpoints as string[]).filter((endpoint) => !tested.includes(endpoint))).toEqual([])
    })

    test('nobody calls the catalog without a valid token', async () => {
      const { service, own } = lake
      const before = await everything()
      const valid = String(service.user('ada').authorization)
      const callers: Caller[] = [
        {},
        { authorization: 'Bearer wrong' },
        { authorization: `${valid.slice(0, -8)}AAAAAAAA` },
        service.user('ada', { exp: Math.floor(Date.now() / 1_000) - 3_600 }),
        service.user('ada', { aud: 'another' }),
        { 'x-api-key': 'wrong' },
      ]
      for (const each of CASES)
        for (const caller of callers) {
          const { status, type } = await ask(caller, 'sluice.dev', each, own)
          expect([each.route, caller, status]).toEqual([each.route, caller, 401])
          if (!each.route.startsWith('HEAD ')) expect(type).toBe('NotAuthorizedException')
        }
      expect(await everything()).toEqual(before)
    })

    test('the audit log has every write, with its caller and its answer', async () => {
      const { service, bob, own } = lake
      const sent: unknown[] = []
      for (const each of CASES.filter(isWrite)) {
        const { status } = await ask(bob, 'sluice.dev', each, own)
        sent.push([each.route.split(' ')[0]?.toLowerCase(), 'bob', status])
      }
      const { json } = await service.ask(service.root, 'GET', '/api/v1/audit?limit=200')
      const found = (json as { action: string; user_id: string; status: number; resource: string }[])
        .filter(({ resource }) => resource.startsWith(V))
        .slice(0, sent.length)
        .map(({ action, user_id, status }) => [action, user_id, status])
      expect(found.reverse()).toEqual(sent)
    })

    test('the owner’s requests succeed on a branch, and a revoked reader’s fail', async () => {
      const { service, ada, carl, own, grants } = lake
      for (const each of CASES) {
        const { status, text } = await ask(ada, 'sluice.dev', each, own)
        expect([each.route, status, status === each.owner ? '' : text]).toEqual([each.route, each.owner, ''])
      }
      for (const grant of grants) await service.must(204, ada, 'DELETE', `/api/v1/sharing/${grant}`)
      for (const each of CASES.filter((one) => !isWrite(one) && one.stranger === undefined))
        expect([each.route, (await ask(carl, 'sluice', each, own)).status]).toEqual([each.route, 404])
    })
  })
