// Attack class: one user learns about another user's resources from answers about many resources. Such answers are lists,
// totals, Link headers, the graph, queries, listings, streams and warnings. The tests also check the data that code can read.
// Every resource of Ada carries a text that occurs nowhere else. Bob has resources of his own. He calls every documented GET
// with all combinations of Ada's names and his own. No answer may contain a text of Ada that Bob has not sent.
import { randomBytes } from 'node:crypto'
import { expect, test } from '@playwright/test'
import { eventually } from '../../kit/eventually.ts'
import { type Caller, type ProService, startProService } from './pro-service.ts'

let service: ProService
let ada: Caller
let bob: Caller
let hers: PluginResources
let his: PluginResources

test.beforeAll(async () => {
  service = await startProService({ RUNNER_URLS: '', QUERY_URLS: '' })
  ada = service.user('ada')
  bob = service.user('bob')
  ;[hers, his] = [await plant(ada), await plant(bob)]
})
test.afterAll(async () => {
  await service?.stop()
})

/** Texts of one user, by description; each text occurs nowhere else. */
type PluginResources = Record<string, string>

const canary = () => `c${randomBytes(5).toString('hex')}`
/** Makes resources in a namespace of the user and in the shared namespace. */
async function plant(caller: Caller): Promise<PluginResources> {
  const things: PluginResources = { namespace: canary(), namespaceDescription: canary() }
  await service.must(201, caller, 'POST', '/api/v1/namespaces', {
    name: things.namespace,
    description: things.namespaceDescription,
  })
  for (const [where, namespace] of [
    ['own', things.namespace ?? ''],
    ['shared', 'default'],
  ] as const)
    for (const [key, value] of Object.entries(await plantIn(caller, namespace)))
      things[`${where} ${key}`] = value
  return things
}

async function plantIn(caller: Caller, namespace: string): Promise<PluginResources> {
  const must = (status: number, method: string, path: string, body?: object) =>
    service.must(status, caller, method, `/api/v1${path}`, body)
  const words = Object.fromEntries(
    [
      'pipeline',
      'zone',
      'column',
      'row',
      'description',
      'comment',
      'test',
      'tableDescription',
      'landed',
      'landedText',
      'sample',
      'version',
      'note',
      'zoneDescription',
      'grantee',
    ].map((key) => [key, canary()]),
  )
  const { pipeline, zone, column, row, description, comment, landed, landedText, sample } = words
  const at = { namespace, layer: 'silver', name: pipeline }
  const path = `/pipelines/${namespace}/silver/${pipeline}`
  const zonePath = `/landing-zones/${namespace}/${zone}`
  const ids: PluginResources = {}
  const record = async (key: string, made: Promise<Record<string, unknown>>, field = 'id') => {
    const id = (await made)[field]
    if (typeof id === 'string') ids[key] = id
  }
  await record('pipelineId', must(201, 'POST', '/pipelines', { ...at, description }))
  await record(
    'zoneId',
    must(201, 'POST', '/landing-zones', { namespace, name: zone, description: words.zoneDescription }),
  )
  for (const [kind, name, text] of [
    ['files', landed, landedText],
    ['samples', sample, 'x'],
  ]) {
    const form = new FormData()
    form.set('file', new File([`a\n${text}\n`], `${name}.csv`))
    await record(`${kind}Id`, must(201, 'POST', `${zonePath}/${kind}`, form))
  }
  const source = `-- ${comment}\nselect '${row}' as ${column}, (select count(*) from read_csv_auto('{{ landing_zone("${zone}") }}')) as files`
  await must(200, 'PUT', `/files/${namespace}${path.replace(`/${namespace}`, '')}/pipeline.sql`, {
    content: source,
  })
  await must(200, 'PUT', `/files/${namespace}/notes/${words.note}.md`, { content: words.note }).catch(() => {
    // In the shared namespace, a file that belongs to no resource needs write access to the namespace.
    if (namespace !== 'default') throw new Error('no note')
    delete words.note
  })
  await must(201, 'POST', `${path}/tests`, {
    name: words.test,
    sql: `select * from {{ this }} where ${column} is null`,
    severity: 'error',
  })
  await must(200, 'POST', `${path}/publish`, { message: words.version })
  await record(
    'triggerId',
    must(201, 'POST', `${path}/triggers`, {
      type: 'landing_zone_upload',
      config: { namespace, zone_name: zone },
      enabled: false,
    }),
  )
  await record(
    'scheduleId',
    must(201, 'POST', '/schedules', { namespace, layer: 'silver', pipeline, cron: '0 6 1 1 *' }),
  )
  await must(201, 'POST', '/sharing', {
    grantee_id: words.grantee,
    resource_type: 'pipeline',
    resource_id: ids.pipelineId,
    permission: 'read',
  })
  ids.runId = await succeed(caller, at)
  await must(200, 'PUT', `/tables/${namespace}/silver/${pipeline}/metadata`, {
    description: words.tableDescription,
  })
  return { ...words, ...ids }
}

/** Runs a pipeline, expects success and returns the id of the run. */
async function succeed(
  caller: Caller,
  { namespace, layer, name }: { namespace: string; layer: string; name?: string },
) {
  const { status, run } = await runOf(caller, { namespace, layer, name })
  expect([status, run.error]).toEqual(['success', null])
  return String(run.id)
}

async function runOf(
  caller: Caller,
  { namespace, layer, name }: { namespace: string; layer: string; name?: string },
) {
  const data = { namespace, layer, pipeline: name }
  const { run_id } = await service.must(202, caller, 'POST', '/api/v1/runs', data)
  const get = () => service.must(200, caller, 'GET', `/api/v1/runs/${run_id}`)
  await eventually(async () => (await get()).finished_at).not.toBeNull()
  const run = await get()
  return { status: run.status, run }
}

interface Observation {
  status: number
  /** Headers and body. */
  text: string
  json: unknown
}

/** Reading time of a stream after its first data. Some streams send nothing: `SILENCE_MS` ends those. */
const STREAM_MS = 400
const SILENCE_MS = 2_000

/** Reads a whole answer, or the first moment of a stream. */
async function observe(caller: Caller, path: string, init: RequestInit = {}): Promise<Observation> {
  const stop = new AbortController()
  const response = await fetch(service.url + path, {
    ...init,
    headers: { ...caller, ...init.headers },
    signal: stop.signal,
  })
  const headers = JSON.stringify([...response.headers].filter(([name]) => name !== 'x-request-id'))
  const type = response.headers.get('content-type') ?? ''
  if (!type.startsWith('text/event-stream')) {
    const body = await response.text()
    return {
      status: response.status,
      text: headers + body,
      json: type.includes('json') ? JSON.parse(body || 'null') : null,
    }
  }
  const decoder = new TextDecoder()
  let body = ''
  let timer = setTimeout(() => stop.abort(), SILENCE_MS)
  try {
    for await (const chunk of response.body ?? []) {
      if (body === '') {
        clearTimeout(timer)
        timer = setTimeout(() => stop.abort(), STREAM_MS)
      }
      body += decoder.decode(chunk, { stream: true })
    }
  } catch {
    // The abort ends the stream as planned.
  }
  clearTimeout(timer)
  return { status: response.status, text: headers + body, json: null }
}

/** Descriptions of the texts that an answer contains and its request does not. */
function leakedKeys({ text }: Observation, request: string, things: PluginResources): string[] {
  return Object.entries(things).flatMap(([key, value]) =>
    text.includes(value) && !request.includes(value) ? [key] : [],
  )
}

/** Requests of an operation, with parameters filled from the resources of one user. */
function fillings(
  path: string,
  names: readonly string[],
  { namespace, ...things }: PluginResources,
): string[] {
  const requests: string[] = []
  for (const where of ['own', 'shared']) {
    const of = (key: string) => things[`${where} ${key}`] ?? ''
    const ns = where === 'own' ? (namespace ?? '') : 'default'
    const machines: [string, string][] = [
      ['run', of('runId')],
      ['draft', of('pipelineId')],
      ['trigger', of('triggerId')],
    ]
    const isZone = path.startsWith('/api/v1/landing-zones')
    for (const [machine, instance] of path.includes('{machine}')
      ? machines
      : ([['run', of('runId')]] as const)) {
      const ids: Record<string, string> = {
        runs: of('runId'),
        schedules: of('scheduleId'),
        inspector: instance,
        sharing: of('pipelineId'),
      }
      const id = isZone
        ? of('filesId')
        : path.includes('/triggers/')
          ? of('triggerId')
          : (ids[path.split('/')[3] ?? ''] ?? '')
      const files =
        path.endsWith('/*') || path.includes('{path}') || path.includes('{*}')
          ? [
              `${ns}/pipelines/silver/${of('pipeline')}/pipeline.sql`,
              `${ns}/landing/${of('zone')}/_samples/${of('sample')}.csv`,
              `${ns}/notes/${of('note')}.md`,
            ]
          : ['']
      for (const file of files)
        requests.push(
          path
            .replace('/namespaces/{name}', `/namespaces/${ns}`)
            .replace('{ns}', ns)
            .replace('{layer}', 'silver')
            .replace('{name}', isZone ? of('zone') : of('pipeline'))
            .replace('{id}', id)
            .replace('{number}', '1')
            .replace('{testName}', of('test'))
            .replace('{filename}', `${of('sample')}.csv`)
            .replace('{machine}', machine)
            .replace('{drawing}', `${machine}.svg`)
            .replace(/\{path\}|\{\*\}|\*$/, file),
        )
    }
  }
  const queries = ['']
  const add = (name: string, ...values: string[]) => {
    if (names.includes(name)) queries.push(...values.map((value) => `${name}=${encodeURIComponent(value)}`))
  }
  const one = (key: string) => things[`shared ${key}`] ?? ''
  add('namespace', namespace ?? '', 'default')
  add('pipeline', one('pipeline'))
  add('search', one('pipeline'), one('pipeline').slice(0, 4), '%', '')
  add(
    'q',
    one('pipeline'),
    one('pipeline').slice(1, 4),
    one('runId'),
    one('pipelineId'),
    one('triggerId'),
    '%',
  )
  add('status', 'success', 'running')
  add('sort', 'trigger', 'updated_at', 'name')
  add('from', '2000-01-01')
  add('to', '2999-01-01')
  add('offset', '0', '1', '999')
  add('counts', '1')
  // Without a prefix, the whole tree of a namespace would be listed.
  if (names.includes('prefix')) {
    queries.splice(0, 1)
    add(
      'prefix',
      namespace ?? '',
      'default',
      `default/pipelines/silver/${one('pipeline')}/`,
      `default/landing/${one('zone')}`,
      'default/landing/',
      'default/pipelines/silver/c',
    )
  }
  if (names.includes('resource_type'))
    return requests.map((request) => `${request}?resource_type=pipeline&resource_id=${one('pipelineId')}`)
  return requests.flatMap((request) =>
    queries.map((query) => (query === '' ? request : `${request}?${query}`)),
  )
}

interface Document {
  paths: Record<string, Record<string, { parameters?: { name: string; in: string }[] }>>
}

/** Every GET of the API, with its requests. */
async function gets(): Promise<[operation: string, requests: string[]][]> {
  const { json } = await observe(ada, '/swagger/openapi.json')
  const { paths } = json as Document
  return Object.entries(paths).flatMap(([path, { get }]): [string, string[]][] => {
    if (get === undefined || !path.startsWith('/api/v1/')) return []
    const names = (get.parameters ?? []).filter((each) => each.in === 'query').map(({ name }) => name)
    return [[path, [...new Set([...fillings(path, names, hers), ...fillings(path, names, his)])]]]
  })
}

/** GETs that reveal no user's resources: their answers are the same for all, have no names, or are for administrators. */
const TELLS_NOTHING = [
  '/api/v1/admin/replicas',
  '/api/v1/admin/retention/config',
  '/api/v1/admin/retention/status',
  '/api/v1/attention',
  '/api/v1/audit',
  '/api/v1/branches',
  '/api/v1/branches/{branch}',
  '/api/v1/branches/{branch}/commits',
  '/api/v1/branches/{branch}/diff',
  '/api/v1/branches/{branch}/diff/{ns}/{layer}/{name}',
  '/api/v1/features',
  '/api/v1/inspector/machines',
  '/api/v1/inspector/machines/draft.svg',
  '/api/v1/inspector/machines/run.svg',
  '/api/v1/inspector/machines/trigger.svg',
  '/api/v1/inspector/{machine}/events',
  '/api/v1/landing-zones/{ns}/{name}/lifecycle',
  '/api/v1/pipelines/{ns}/{layer}/{name}/retention',
  '/api/v1/tables/{ns}/{layer}/{name}/files',
  '/api/v1/tags',
]

test('every GET reveals Ada’s resources to Ada and none to Bob', async () => {
  const operations = await gets()
  expect(operations.length).toBeGreaterThan(35)
  const leaks: [string, string[]][] = []
  const silent: string[] = []
  const failed: unknown[] = []
  let requests = 0
  for (const [operation, paths] of operations) {
    let isTold = false
    for (const path of paths) {
      const request = decodeURIComponent(path)
      const observed = await observe(bob, path)
      requests += 1
      const leaked = leakedKeys(observed, request, hers)
      if (leaked.length > 0) leaks.push([path, leaked])
      if (observed.status >= 500) failed.push([path, observed.text])
      isTold ||= leakedKeys(await observe(ada, path), request, hers).length > 0
      // Ada needs only one answer that contains her texts.
      if (!isTold || !operation.includes('{')) continue
    }
    if (!isTold) silent.push(operation)
  }
  console.log(`${operations.length} operations, ${requests} requests`)
  expect(failed).toEqual([])
  expect(leaks).toEqual([])
  expect(silent.sort()).toEqual(TELLS_NOTHING)
})

test('totals and links count only the resources that a user may see', async () => {
  for (const [path, bobs] of [
    ['pipelines', 2],
    ['runs', 2],
    ['landing-zones', 2],
    ['schedules', 2],
    ['tables', 2],
    ['namespaces', 2],
    ['schema', 2],
    ['inspector/run/instances', 2],
    ['inspector/draft/instances', 2],
    ['inspector/trigger/instances', 2],
    ['runs?from=2000-01-01', 2],
    ['runs?status=success', 2],
    ['runs?namespace=default', 1],
    ['runs?offset=1', 2],
    ['runs?offset=5000', 2],
    ['tables?layer=silver', 2],
    ['tables?namespace=default', 1],
    ['pipelines?search=c', 2],
    ['files?prefix=default/landing/', 2],
    ['files?prefix=default', 5],
  ] as const)
    for (const caller of [bob, ada]) {
      const { json, text } = await observe(caller, `/api/v1/${path}`)
      const { total } = json as { total?: number }
      const found = path === 'schema' ? (json as { tables: unknown[] }).tables.length : total
      expect([path, found]).toEqual([path, bobs])
      expect(text.match(/offset=(\d+)[^"]*>; rel=\\"last/)?.[1]).toBe('0')
    }
  for (const counts of ['?counts=1', '?counts=1&detail=full']) {
    const { text, status } = await observe(bob, `/api/v1/inspector/machines/run.svg${counts}`)
    expect([200, 403]).toContain(status)
    expect(text).not.toMatch(/class="badge"[\s\S]{0,200}>4</)
  }
})

const json = (method: string, body: object = {}): RequestInit => ({
  method,
  body: JSON.stringify(body),
  headers: { 'content-type': 'application/json' },
})
const query = (caller: Caller, sql: string, namespace = 'default') =>
  observe(caller, '/api/v1/query', json('POST', { sql, namespace }))

test('a list of tables in SQL names those of its caller only', async () => {
  const lists = [
    'select * from information_schema.tables',
    'select * from information_schema.columns',
    'select * from information_schema.schemata',
    'show tables',
    'show all tables',
  ]
  // Ada queries first, because the engine keeps the tables that she read.
  for (const caller of [ada, bob, ada, bob])
    for (const sql of [
      ...lists,
      `select * from silver.${(caller === ada ? hers : his)['shared pipeline']}`,
    ]) {
      const observed = await query(caller, sql)
      expect(observed.status).toBe(200)
      const leaked = leakedKeys(observed, sql, hers)
      expect([sql, caller === ada ? leaked.length > 0 : leaked]).toEqual([sql, caller === ada ? true : []])
    }
  const space = String(hers.namespace)
  expect(leakedKeys(await query(bob, 'show tables', space), space, hers)).toEqual([])
})

/** Names in code, of Ada or of nobody. */
interface Target {
  /** A table in the shared namespace, and one in a namespace of its owner. */
  table: string
  far: string
  zone: string
  sample: string
}
const adas = (): Target => ({
  table: String(hers['shared pipeline']),
  far: `${hers.namespace}.silver.${hers['own pipeline']}`,
  zone: String(hers['shared zone']),
  sample: String(hers['shared sample']),
})
const NOBODYS: Target = {
  table: 'cnothing',
  far: 'cnowhere.silver.cfar',
  zone: 'cnozone',
  sample: 'cnosample',
}

/** A pipeline of Bob, in which the administrator may preview too. */
async function codeOfBob(type: 'sql' | 'python') {
  const name = `c${randomBytes(4).toString('hex')}`
  const at = { namespace: 'default', layer: 'silver', name }
  const path = `/api/v1/pipelines/default/silver/${name}`
  const file = `/api/v1/files/default/pipelines/silver/${name}/pipeline.${type === 'sql' ? 'sql' : 'py'}`
  await service.must(201, bob, 'POST', '/api/v1/pipelines', { ...at, type })
  return {
    path,
    write: (content: string) => service.must(200, bob, 'PUT', file, { content }),
    preview: (caller: Caller, body: object) => observe(caller, `${path}/preview`, json('POST', body)),
    publish: () => observe(bob, `${path}/publish`, json('POST')),
    async run() {
      const { status, run } = await runOf(bob, at)
      const log = await observe(bob, `/api/v1/runs/${run.id}/logs`)
      return { ...log, status: status === 'failed' ? 400 : 200, text: JSON.stringify(run) + log.text }
    },
  }
}

/** A way on which code could learn about a resource that its author may not see. */
interface Channel {
  title: string
  type: 'sql' | 'python'
  code(target: Target): string
  /** The text of Ada that the code returns to callers who may see it. */
  told?: string
}

const REF = ({ table }: Target) => `select * from {{ ref('silver.${table}') }}`
const LANDED = ({ zone }: Target) => `select * from read_csv_auto('{{ landing_zone("${zone}") }}')`
const CHANNELS: Channel[] = [
  { title: 'ref()', type: 'sql', code: REF, told: 'shared row' },
  {
    title: 'ref() with a namespace',
    type: 'sql',
    code: ({ far }) => `select * from {{ ref('${far}') }}`,
    told: 'own row',
  },
  { title: 'landing_zone()', type: 'sql', code: LANDED, told: 'shared landedText' },
  {
    title: 'a table name in SQL',
    type: 'sql',
    code: ({ table }) => `select * from "default.silver"."${table}"`,
  },
  {
    title: 'sql() in Python',
    type: 'python',
    code: ({ table }) => `result = sql(f"select * from {ref('silver.${table}')}")`,
    told: 'shared row',
  },
  {
    title: 'landing_zone() in Python',
    type: 'python',
    code: ({ zone }) =>
      `import glob\nresult = [{'text': open(path).read()} for path in glob.glob(landing_zone('${zone}'))]`,
    told: 'shared landedText',
  },
]

/** An answer in which the names of the target are replaced. */
function masked({ status, json: body }: Observation, target: Target): string {
  let text = `${status} ${JSON.stringify(body)}`
  for (const [key, value] of Object.entries(target)) text = text.replaceAll(value, key.toUpperCase())
  return text
}

/** Bob's answer about Ada's resources tells nothing, and is the answer about missing ones. */
async function expectHidden(about: string, ask: (target: Target) => Promise<Observation>) {
  const [hidden, missing] = [await ask(adas()), await ask(NOBODYS)]
  expect([about, leakedKeys(hidden, about + JSON.stringify(adas()), hers)]).toEqual([about, []])
  expect(masked(hidden, adas()), about).toBe(masked(missing, NOBODYS))
  return hidden
}

for (const { title, type, code, told } of CHANNELS)
  test(`previews, publications and runs of Bob tell nothing of Ada: ${title}`, async () => {
    const bobs = await codeOfBob(type)
    const previewed = await expectHidden(title, (target) => bobs.preview(bob, { code: code(target) }))
    expect(previewed.status).toBe(400)
    await expectHidden(title, async (target) => {
      await bobs.write(code(target))
      const { status, json: published } = await bobs.publish()
      const { validation } = published as { validation: unknown }
      return { status, text: JSON.stringify(validation), json: validation }
    })
    await bobs.write(code(adas()))
    await bobs.publish()
    const ran = await bobs.run()
    expect([ran.status, leakedKeys(ran, code(adas()), hers)]).toEqual([400, []])
    // Control: the same code returns the text to an administrator.
    if (told !== undefined)
      expect(
        leakedKeys(await bobs.preview(service.root, { code: code(adas()) }), code(adas()), hers),
      ).toContain(told)
  })

test('queries, samples and quality tests of Bob tell nothing of Ada', async () => {
  for (const form of [
    'select * from T',
    'describe T',
    'explain select * from T',
    'with a as (select 1) select (select count(*) from T)',
  ])
    for (const name of ['silver.TABLE', 'default.silver.TABLE', 'FAR']) {
      const sqlOf = ({ table, far }: Target) =>
        form.replace('T', name).replace('TABLE', table).replace('FAR', far)
      expect((await expectHidden(form, (target) => query(bob, sqlOf(target)))).status).toBe(400)
    }
  const bobs = await codeOfBob('sql')
  const sampled = (target: Target) =>
    bobs.preview(bob, {
      code: LANDED(target),
      sample_files: [`default/landing/${target.zone}/_samples/${target.sample}.csv`],
    })
  expect((await expectHidden('a sample', sampled)).status).toBe(400)
  await bobs.write('select 1 as a')
  await service.must(201, bob, 'POST', `${bobs.path}/tests`, {
    name: 'peek',
    sql: REF(adas()),
    severity: 'error',
  })
  const tested = await observe(bob, `${bobs.path}/tests/run`, { method: 'POST' })
  expect([tested.status, leakedKeys(tested, REF(adas()), hers)]).toEqual([200, []])
})

test('code reads what is shared with its author, until the revocation', async () => {
  const bobs = await codeOfBob('sql')
  const share = (type: string, id: unknown) =>
    service.must(201, ada, 'POST', '/api/v1/sharing', {
      grantee_id: 'bob',
      resource_type: type,
      resource_id: id,
      permission: 'read',
    })
  const grants = [
    await share('pipeline', hers['shared pipelineId']),
    await share('landing_zone', hers['shared zoneId']),
  ]
  const seen = async (code: string) => leakedKeys(await bobs.preview(bob, { code }), code, hers)
  expect(await seen(REF(adas()))).toContain('shared row')
  expect(await seen(LANDED(adas()))).toContain('shared landedText')
  await bobs.write(`${REF(adas())}, read_csv_auto('{{ landing_zone("${adas().zone}") }}')`)
  await bobs.publish()
  expect((await bobs.run()).status).toBe(200)
  for (const { id } of grants) await service.must(204, ada, 'DELETE', `/api/v1/sharing/${id}`)
  expect((await bobs.run()).status).toBe(400)
  expect(await seen(REF(adas()))).toEqual([])
})

test('a cycle through pipelines of Ada is no finding of Bob’s publication', async () => {
  const bobs = await codeOfBob('sql')
  const [round, via] = [canary(), canary()]
  // Ada's pipelines read Bob's table, and Bob's pipeline would read theirs.
  for (const [own, reads] of [
    [via, bobs.path.split('/').at(-1)],
    [round, via],
  ]) {
    const at = { namespace: 'default', layer: 'silver', name: own }
    await service.must(201, ada, 'POST', '/api/v1/pipelines', at)
    await service.must(200, ada, 'PUT', `/api/v1/files/default/pipelines/silver/${own}/pipeline.sql`, {
      content: `select * from {{ ref('silver.${reads}') }}`,
    })
  }
  const warnings = async (table: string) => {
    await bobs.write(REF({ ...NOBODYS, table }))
    const { validation } = (await bobs.publish()).json as { validation: unknown }
    return JSON.stringify(validation).replaceAll(table, 'TABLE')
  }
  const [hidden, missing] = [await warnings(round), await warnings('cnothing')]
  expect(hidden).toBe(missing)
  // A caller who may see all pipelines is shown the cycle.
  await warnings(round)
  const { validation } = await service.must(200, service.root, 'POST', `${bobs.path}/publish`)
  expect(JSON.stringify(validation)).toContain(via)
})
