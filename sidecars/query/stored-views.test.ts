import { expect, setDefaultTimeout, test } from 'bun:test'
import { layerOf } from '../../ground/names.ts'
import { createViewBody } from '../../lake/iceberg/views/view.ts'
import { schemaForReplace } from '../../lake/iceberg/write/evolution.ts'
import { duringTests } from '../../tools/kit/during.ts'
import { startTestQueries, tableNamed } from './testing.ts'

setDefaultTimeout(60_000)
const queries = duringTests(() => startTestQueries())

/** Stores a view with one column on a branch. Returns the answer, and a function that merges the branch. */
async function stored(path: string, sql: string, token?: string) {
  const { catalog } = queries
  const { namespace, layer: text, name } = tableNamed(path)
  const layer = layerOf(text) ?? 'gold'
  const attempt = await catalog.attempt({ namespace, layer, name })
  const { schema } = schemaForReplace([{ name: 'id', type: 'INTEGER' }])
  const named = { namespace: [namespace, layer], name }
  const body = JSON.stringify(createViewBody(named, { sql, schema, reads: [], runId: attempt.runId }))
  const address = `/catalog/v1/sluice.${attempt.branch}/namespaces/${namespace}%1F${layer}/views`
  const store = () => catalog.fetch(address, token ?? attempt.token, { method: 'POST', body })
  return { store, merge: (commit: string) => catalog.merge(attempt, commit) }
}

async function newView(path: string, sql: string) {
  const { store, merge } = await stored(path, sql)
  const answer = await store()
  expect(answer.status).toBe(200)
  const { config } = await answer.json()
  // A repeated request finds the view and returns the same commit.
  expect((await (await store()).json()).config).toEqual(config)
  expect(await merge(config['x-sluice-commit'])).toBe('merged')
}

const rowsOf = async (sql: string, visible?: string[]) =>
  (await queries.query(sql, visible === undefined ? {} : { visible })).rows
const refusalOf = (sql: string, visible?: string[]) =>
  rowsOf(sql, visible).then(
    () => '',
    (error: Error) => error.message,
  )

test('a view is read only by callers who see everything that it reads', async () => {
  await queries.table('default.silver.orders', 'select 1 as id')
  await newView('default.gold.v', 'select id from "default"."silver"."orders"')
  await newView('default.gold.w', 'select id from "default"."gold"."v"')
  const all = ['default.gold.w', 'default.gold.v', 'default.silver.orders']
  expect(await rowsOf('select * from gold.w', all)).toEqual([{ id: 1 }])
  expect(await refusalOf('select * from gold.w', ['default.gold.w', 'default.gold.v'])).toContain(
    'view default.gold.v cannot be read: there is no table default.silver.orders',
  )
  expect(await refusalOf('select * from gold.w', ['default.gold.w', 'default.silver.orders'])).toContain(
    'view default.gold.w cannot be read: there is no table default.gold.v',
  )
  expect(await rowsOf('show tables', ['default.gold.w'])).toEqual([{ name: 'gold.w' }])
  expect(await rowsOf('select count(*)::int as n from gold.w, gold.v')).toEqual([{ n: 1 }])
})

test('a stored text that does more than read tables is refused by its readers', async () => {
  for (const [index, sql] of [
    "select * from read_parquet('/_lake/**')",
    "select getenv('HOME') as id",
    'select 1 as id; select 2 as id',
  ].entries()) {
    await newView(`default.gold.hostile-${index}`, sql)
    expect(await refusalOf(`select * from gold."hostile-${index}"`)).toContain(
      `view default.gold.hostile-${index} cannot be read: `,
    )
  }
})

test('views that read each other are refused with their path', async () => {
  await newView('default.gold.a', 'select id from "default"."gold"."b"')
  await newView('default.gold.b', 'select id from "default"."gold"."a"')
  expect(await refusalOf('select * from gold.a')).toContain(
    'default.gold.a -> default.gold.b -> default.gold.a',
  )
})

test('a filter on a view excludes files of its table', async () => {
  for (let part = 0; part < 10; part += 1)
    await queries.table('default.silver.parts', `select ${part} as id`, 'append')
  await newView('default.gold.parts', 'select id from "default"."silver"."parts"')
  expect(await rowsOf('select * from gold.parts where id = 7')).toEqual([{ id: 7 }])
  const request = { sql: 'select * from gold.parts where id = 7', limit: 10n, timeoutMs: 10_000, queryId: '' }
  const { filesRead, filesTotal } = await queries.client.executeQuery({
    ...request,
    lake: await queries.lake(),
  })
  expect([filesRead, filesTotal]).toEqual([1n, 10n])
})

test('only the attempt of a view stores it', async () => {
  const { catalog } = queries
  const other = await catalog.attempt({ namespace: 'default', layer: 'gold', name: 'other' })
  const { token } = await catalog.reader()
  for (const foreign of [other.token, token])
    expect((await (await stored('default.gold.mine', 'select 1 as id', foreign)).store()).status).toBe(403)
})
