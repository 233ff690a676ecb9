// A misspelt field is refused with the intended name; other unknown fields are ignored.
import { expect, test } from '@playwright/test'
import { expectError, fresh, getJson, newPipeline } from './resources.ts'

const MISSPELT: [method: 'post' | 'put', path: string, data: object, message: RegExp][] = [
  ['post', '/pipelines', { nmae: 'a' }, /^unknown field `nmae`, did you mean `name`\?$/],
  ['put', '<pipeline>', { max_version: 3 }, /^unknown field `max_version`, did you mean `max_versions`\?$/],
  ['post', '<pipeline>/publish', { mesage: 'a' }, /`mesage`, did you mean `message`\?$/],
  ['post', '<pipeline>/preview', { limits: 1 }, /`limits`, did you mean `limit`\?$/],
  [
    'post',
    '<pipeline>/triggers',
    { type: 'webhook', config: {}, enable: false },
    /`enable`, did you mean `enabled`\?$/,
  ],
  [
    'post',
    '<pipeline>/triggers',
    { type: 'cron', config: { cronExpr: '* * * * *' } },
    /^unknown field `config\.cronExpr`, did you mean `config\.cron_expr`\?$/,
  ],
  [
    'post',
    '<pipeline>/tests',
    { name: 'a', sql: 'select 0', severty: 'warn' },
    /`severty`, did you mean `severity`\?$/,
  ],
  [
    'post',
    '/runs',
    { namespace: 'default', layer: 'gold', pipline: 'a' },
    /`pipline`, did you mean `pipeline`\?$/,
  ],
  ['post', '/query', { sql: 'select 1', limt: 1 }, /`limt`, did you mean `limit`\?$/],
  ['put', '/admin/retention/config', { runs_max_age_day: 1 }, /did you mean `runs_max_age_days`\?$/],
]

test('a field misspelt by at most two letters gets a suggestion', async ({ request }) => {
  const { url } = await newPipeline(request)
  for (const [method, path, data, message] of MISSPELT) {
    const address = path.startsWith('<pipeline>') ? path.replace('<pipeline>', url) : `/api/v1${path}`
    await expectError(await request[method](address, { data }), 400, message)
  }
})

test('unknown fields are ignored, so a response can be sent back', async ({ request }) => {
  const { url } = await newPipeline(request, { comment: 'not a field', labels: { enable: true } })
  const pipeline = await getJson(request, url)
  expect((await request.put(url, { data: pipeline })).status()).toBe(200)
  const config = { cron_expr: '0 6 * * *' }
  const created = await request.post(`${url}/triggers`, { data: { type: 'cron', config, note: fresh('n') } })
  const { id } = await created.json()
  const trigger = await getJson(request, `${url}/triggers/${id}`)
  expect((await request.put(`${url}/triggers/${id}`, { data: trigger })).status()).toBe(200)
})
