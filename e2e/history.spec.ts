// The second contract: History.
import { expect, test } from '@playwright/test'
import { expectError, fresh, getJson, newNamespace, pipelineWith, publish, writeFile } from './resources.ts'
import { runToSuccess } from './runs.ts'

test('each success is a commit of main and a state of its table', {
  tag: ['@history.commits', '@history.table', '@history.table.404', '@history.commits.400'],
}, async ({ request }) => {
  const namespace = await newNamespace(request)
  const pipeline = await pipelineWith(request, 'select range as id from range(3)', {
    namespace,
    layer: 'gold',
  })
  const table = `${namespace}.gold.${pipeline.name}`
  const first = await runToSuccess(request, pipeline)
  await writeFile(request, `${pipeline.prefix}pipeline.sql`, "select range as id, 'x' as word from range(5)")
  await publish(request, pipeline)
  const second = await runToSuccess(request, pipeline)

  const commits = {
    commits: [{ number: second.merged_commit, run_id: second.id, tables: [table] }, {}],
    total: 2,
  }
  expect(await getJson(request, '/api/v1/commits', { table })).toMatchObject(commits)
  expect(await getJson(request, '/api/v1/commits', { namespace })).toMatchObject(commits)
  const [{ created_at: at }] = (await getJson(request, '/api/v1/commits', { table })).commits
  expect(await getJson(request, '/api/v1/commits', { table, from: at })).toMatchObject({ total: 1 })
  await expectError(await request.get('/api/v1/commits?table=gold'), 400, /^table: /)

  const path = `/api/v1/tables/${namespace}/gold/${pipeline.name}/history`
  const { history, total } = await getJson(request, path)
  expect(total).toBe(2)
  expect(history).toMatchObject([
    {
      commit: second.merged_commit,
      run_id: second.id,
      operation: 'overwrite',
      row_count: 5,
      rows_added: 5,
      rows_removed: 3,
      schema_changed: true,
    },
    {
      commit: first.merged_commit,
      operation: 'append',
      row_count: 3,
      rows_added: 3,
      rows_removed: 0,
      schema_changed: false,
    },
  ])

  const branch = fresh('past')
  await request.post('/api/v1/branches', { data: { name: branch, as_of: first.merged_commit } })
  expect((await getJson(request, path, { branch })).history).toMatchObject([{ commit: first.merged_commit }])
  await expectError(await request.get(`${path}?branch=absent`), 404)
  await expectError(await request.get(`/api/v1/tables/${namespace}/gold/absent/history`), 404)
})
