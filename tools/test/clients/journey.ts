/**
 * One journey with the generated TypeScript client. `tools/test/clients.ts` copies this file beside the generated `sluice.ts`,
 * checks the types of both and runs this file. SLUICE_URL is the address of the service.
 */
import assert from 'node:assert/strict'
import createClient from 'openapi-fetch'
import type { components, paths } from './sluice.ts'

const NAME = 'client-typescript'
const pipelinePath = { ns: 'default', layer: 'silver', name: NAME } as const
const api = createClient<paths>({ baseUrl: process.env.SLUICE_URL ?? '' })

/** Returns the body of a successful response. Throws with the error envelope of any other response. */
function bodyOf<Body>({ data, error }: { data?: Body; error?: unknown }): NonNullable<Body> {
  assert.equal(error, undefined, JSON.stringify(error))
  assert.ok(data !== undefined && data !== null)
  return data
}

const created = bodyOf(
  await api.POST('/api/v1/pipelines', {
    body: { namespace: 'default', layer: 'silver', name: NAME, type: 'sql' },
  }),
)
const path = `default/pipelines/silver/${NAME}/pipeline.sql`
assert.ok(created.files_created.includes(path))
bodyOf(
  await api.PUT('/api/v1/files/{path}', {
    params: { path: { path } },
    body: { content: "select 1 as id, 'one' as word" },
  }),
)
const published = bodyOf(
  await api.POST('/api/v1/pipelines/{ns}/{layer}/{name}/publish', {
    params: { path: pipelinePath },
    body: { message: 'First version' },
  }),
)
assert.equal(published.version, 1)

const { run_id } = bodyOf(
  await api.POST('/api/v1/runs', { body: { namespace: 'default', layer: 'silver', pipeline: NAME } }),
)
const log = bodyOf(
  await api.GET('/api/v1/runs/{id}/logs', {
    params: { path: { id: run_id } },
    headers: { accept: 'text/event-stream' },
    parseAs: 'text',
  }),
)
const events = String(log).split('\n\n')
const end = events.find((event) => event.includes('event: status'))
const ended: components['schemas']['RunEnd'] = JSON.parse(end?.split('data: ')[1] ?? '{}')
assert.equal(ended.status, 'success', String(log))
const run = bodyOf(await api.GET('/api/v1/runs/{id}', { params: { path: { id: run_id } } }))
assert.deepEqual([run.status, run.layer, run.rows_written], ['success', 'silver', 1])
const runs = bodyOf(
  await api.GET('/api/v1/runs', {
    params: { query: { pipeline: NAME, sort: 'started_at', order: 'asc', limit: 1 } },
  }),
)
assert.equal(runs.runs[0]?.id, run_id)

const answer = bodyOf(await api.POST('/api/v1/query', { body: { sql: `select word from silver."${NAME}"` } }))
assert.deepEqual(answer.rows, [{ word: 'one' }])

const zone = { ns: 'default', name: NAME }
bodyOf(await api.POST('/api/v1/landing-zones', { body: { namespace: 'default', name: NAME } }))
const trigger = bodyOf(
  await api.POST('/api/v1/pipelines/{ns}/{layer}/{name}/triggers', {
    params: { path: pipelinePath },
    body: {
      type: 'file_pattern',
      config: { namespace: 'default', zone_name: NAME, pattern: '*.json' },
      cooldown_seconds: 60,
    },
  }),
)
// The trigger's type determines the fields of its config.
assert.equal(trigger.type === 'file_pattern' && trigger.config.pattern, '*.json')
const uploaded = bodyOf(
  await api.POST('/api/v1/landing-zones/{ns}/{name}/files', {
    params: { path: zone },
    body: { file: 'id,word\n1,one\n' },
    bodySerializer: ({ file }) => {
      const form = new FormData()
      form.append('file', new Blob([file], { type: 'text/csv' }), 'words.csv')
      return form
    },
  }),
)
assert.deepEqual([uploaded.size_bytes, uploaded.filename.endsWith('words.csv')], [14, true])

const refused = await api.DELETE('/api/v1/landing-zones/{ns}/{name}/files/{id}', {
  params: { path: { ...zone, id: run_id } },
})
assert.equal(refused.error?.error.code, 'NOT_FOUND')
await api.DELETE('/api/v1/landing-zones/{ns}/{name}', { params: { path: zone } })
const removed = await api.DELETE('/api/v1/pipelines/{ns}/{layer}/{name}', { params: { path: pipelinePath } })
assert.equal(removed.response.status, 204)
