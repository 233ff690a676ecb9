// A review waits through the death of every part. Its approval merges the run exactly once.
import { expect, test } from '@playwright/test'
import { startTree, type Tree, until } from './tree.ts'

const ROWS = 3

let tree: Tree
test.beforeAll(async () => {
  tree = await startTree()
})
test.afterAll(() => tree?.stop())

const killed = async (part: string) => void process.kill(await tree.pidOf(part), 'SIGKILL')
const PARTS: Record<string, readonly string[]> = {
  'the API process': ['api'],
  'the runner': ['runner'],
  'all parts': ['api', 'runner', 'query', 'postgres'],
}

for (const [what, parts] of Object.entries(PARTS))
  test(`a run in review survives the death of ${what} and merges once`, async () => {
    const name = `reviewed_${parts.join('_')}`
    const id = await inReview(name)
    const before = await tree.run(id)
    expect(before).toMatchObject({ status: 'running', merged_commit: null })
    await Promise.all(parts.map(killed))
    const run = await until(
      () => tree.run(id),
      () => true,
    )
    expect(run).toEqual(before)
    await expectOnMain(name, 0)

    expect(await decided(id)).toBe(200)
    expect(await tree.run(id)).toMatchObject({ status: 'success', error: null })
    await expectMergedOnce(id, name)
    expect(await decided(id)).toBe(409)
  })

test('an approval whose answer is lost with the API merges at most once', async () => {
  const name = 'reviewed_unanswered'
  const id = await inReview(name)
  const approval = decided(id).catch(() => null)
  await killed('api')
  await approval
  const run = await until(
    () => tree.run(id),
    () => true,
  )
  // The transaction of the approval is there completely or not at all.
  if (run.status === 'running') expect(await decided(id)).toBe(200)
  await expectMergedOnce(id, name)
})

/** Runs a pipeline up to its review. It adds its rows with each run, so a second merge would show. */
async function inReview(name: string): Promise<string> {
  const ref = { namespace: 'default', layer: 'gold', name }
  await until(
    () => tree.call('POST', '/pipelines', ref),
    ({ status }) => status === 201 || status === 409,
  )
  const content = 'merge: review\nmerge_strategy: append_only\n'
  await tree.call('PUT', `/files/default/pipelines/gold/${name}/config.yaml`, { content })
  await tree.publish(name, `select range as a from range(${ROWS})`)
  const id = await tree.requestRun(name)
  await until(
    () => tree.run(id),
    ({ phase }) => phase === 'review',
  )
  return id
}

const decided = async (id: string) => (await tree.call('POST', `/runs/${id}/approve`, {})).status

async function expectMergedOnce(id: string, name: string) {
  await expectOnMain(name, ROWS)
  const sql = await tree.connect()
  expect(await sql`select 1 from transition where entity_id = ${id} and "to" = 'success'`).toHaveLength(1)
  expect(await sql`select 1 from lake_commit where run_id = ${id}`).toHaveLength(1)
  expect(await sql`select name from lake_ref where state = 'open' and name <> 'main'`).toHaveLength(0)
  await sql.end({ timeout: 1 })
}

/** The number of rows that queries see; no table has none. */
async function expectOnMain(name: string, rows: number) {
  const sql = `select count(*)::int as n from gold.${name}`
  const answer = await until(
    () => tree.call<{ rows?: { n: number }[] }>('POST', '/query', { sql }),
    ({ status }) => status < 500,
  )
  expect([answer.status, answer.body.rows]).toEqual(rows === 0 ? [400, undefined] : [200, [{ n: rows }]])
}
