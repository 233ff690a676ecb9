// A field, form field or query parameter that its route does not know is refused. The operations come from the OpenAPI document.
import { expect, test } from '@playwright/test'
import { operationsOf } from '../kit/document.ts'
import { expectError, fresh, getJson, newPipeline } from '../kit/resources.ts'

const UNKNOWN = 'no_such_name'
/** The body of a webhook belongs to its caller. */
const FREE_BODIES = ['/api/v1/webhooks']

test('every operation refuses an unknown query parameter and an unknown field', async ({ request }) => {
  const operations = operationsOf(await getJson(request, '/swagger/json'))
  expect(operations.length).toBeGreaterThan(100)
  // The zone of the document's examples: a form is read only for a zone that exists.
  await request.post('/api/v1/landing-zones', { data: { namespace: 'default', name: 'flights' } })
  for (const { method, path, body, parameters } of operations) {
    const address = path.replace(/\{(\w+)\}/g, (_, name) =>
      encodeURIComponent(String(parameters.find((one) => one.name === name)?.example ?? name)),
    )
    const send = (target: string, content: Parameters<typeof request.fetch>[1] = {}) =>
      request.fetch(target, { method, ...content })
    const known = parameters.flatMap((one) => (one.in === 'query' ? [`\`${one.name}\``] : []))
    const parameter = await send(`${address}?_ignored=1&${UNKNOWN}=1`)
    await expectError(
      parameter,
      400,
      `unknown query parameter \`${UNKNOWN}\`. Known: ${known.join(', ') || 'none'}`,
    )
    if (method === 'GET' || FREE_BODIES.includes(path)) continue
    const isForm = body?.type === 'multipart/form-data'
    const sent = isForm ? { multipart: { [UNKNOWN]: 'x' } } : { data: { [UNKNOWN]: 'x' } }
    const kind = isForm ? 'form field' : 'field'
    await expectError(
      await send(address, sent),
      400,
      new RegExp(`^unknown ${kind} \`${UNKNOWN}\`\\. Known: `),
    )
  }
})

/** Fields that this version does not have, and fields within two letters of a known one. */
const REFUSED: [
  method: 'post' | 'put' | 'get',
  path: string,
  data: Record<string, unknown>,
  message: RegExp,
][] = [
  ['post', '/pipelines', { nmae: 'a' }, /^unknown field `nmae`, did you mean `name`\? Known: `namespace`, /],
  ['put', '<pipeline>', { max_version: 3 }, /^unknown field `max_version`, did you mean `max_versions`\?/],
  ['put', '<pipeline>', { comment: 'x' }, /^unknown field `comment`\. Known: `description`, `type`, /],
  ['post', '<pipeline>/publish', { mesage: 'a' }, /`mesage`, did you mean `message`\?/],
  [
    'post',
    '<pipeline>/triggers',
    { type: 'cron', config: { cronExpr: '* * * * *' } },
    /^unknown field `config\.cronExpr`, did you mean `config\.cron_expr`\? Known: `cron_expr`$/,
  ],
  [
    'post',
    '<pipeline>/triggers',
    { type: 'cron', config: { cron_expr: '* * * * *', dependencies: [] } },
    /^unknown field `config\.dependencies`\. Known: `cron_expr`$/,
  ],
  [
    'post',
    '/schedules',
    { cron: '* * * * *', utc_offset: 1 },
    /^unknown field `utc_offset`\. Known: .*`cron`/,
  ],
  [
    'post',
    '/runs',
    { namespace: 'default', no_cache: true },
    /^unknown field `no_cache`\. Known: .*`pipeline`/,
  ],
  ['post', '/query', { sql: 'select 1', limt: 1 }, /`limt`, did you mean `limit`\?/],
  ['put', '/admin/retention/config', { runs_max_age_day: 1 }, /did you mean `runs_max_age_days`\?/],
  ['get', '/pipelines?serch=x', {}, /^unknown query parameter `serch`, did you mean `search`\?/],
]

test('an unknown field or parameter is named with the known ones', async ({ request }) => {
  const { url } = await newPipeline(request)
  for (const [method, path, data, message] of REFUSED) {
    const address = path.startsWith('<pipeline>') ? path.replace('<pipeline>', url) : `/api/v1${path}`
    await expectError(await request.fetch(address, { method, data }), 400, message)
  }
})

test('a resource can be read, changed and written back', async ({ request }) => {
  const { url } = await newPipeline(request)
  const config = { cron_expr: '0 6 * * *' }
  const cron = await (await request.post(`${url}/triggers`, { data: { type: 'cron', config } })).json()
  const hook = await (await request.post(`${url}/triggers`, { data: { type: 'webhook', config: {} } })).json()
  const namespace = `/api/v1/namespaces/${fresh('kept')}`
  await request.post('/api/v1/namespaces', { data: { name: namespace.split('/').at(-1) } })
  const updates: [address: string, change: Record<string, unknown>][] = [
    [url, { description: 'New' }],
    [`${url}/triggers/${cron.id}`, { cooldown_seconds: 9 }],
    [`${url}/triggers/${hook.id}`, { enabled: false }],
    [namespace, { description: 'New' }],
    ['/api/v1/admin/retention/config', {}],
  ]
  for (const [address, change] of updates) {
    const present = await getJson(request, address)
    const written = await request.put(address, { data: { ...present, ...change } })
    expect([address, written.status()]).toEqual([address, address === namespace ? 204 : 200])
    expect(await getJson(request, address)).toMatchObject(change)
  }
  const read = await getJson(request, url)
  await expectError(
    await request.put(url, { data: { ...read, name: 'other' } }),
    400,
    `name: this request cannot change the field: leave it out, or send its present value, "${read.name}"`,
  )
  await expectError(await request.post('/api/v1/pipelines', { data: read }), 400, /^unknown field `id`/)
})
