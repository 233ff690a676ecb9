// Users of Iceberg REST with the built-in grants: reads until the revocation, and the audit log of refused writes.
import { beforeAll, expect, test } from 'bun:test'
import { duringTests } from '../../tools/kit/during.ts'
import { makeEnforcement, makeResources, makeSharing, type Resources } from '../access/service.ts'
import { identityOf } from '../access/testing.ts'
import { type AuditService, makeAuditService, noAudit } from '../audit/service.ts'
import { testLog } from '../composition/test-app.ts'
import type { Enforcement, Permission } from '../core/access.ts'
import { systemClock } from '../core/clock.ts'
import { newId } from '../core/ids.ts'
import { openTestCatalog } from './test-catalog.ts'

// These services need the database of the catalog, which opens before the first test.
let audit: AuditService
const enforcement: Enforcement = {
  check: (...asked) => makeEnforcement(pro).check(...asked),
  listVisible: (...asked) => makeEnforcement(pro).listVisible(...asked),
}
const pro = duringTests(() =>
  openTestCatalog(undefined, {
    config: { edition: 'pro', apiKey: 'key-of-the-tests' },
    plugins: { auth: { tokens: { verify: identityOf }, authorize: () => true }, describe: async () => ({}) },
    ownership: {
      resources: { table: (name) => makeResources(pro).table(name) } as Resources,
      enforcement,
    },
    audit: {
      ...noAudit,
      reserve: (...asked) => audit.reserve(...asked),
      record: (request) => audit.record(request),
    },
  }),
)

const TABLES = '/namespaces/default%1Fgold/tables'
/** The pipeline of Ada's table `orders`. */
const pipelineId = newId()
beforeAll(async () => {
  const { sql } = pro
  audit = makeAuditService({ sql, lists: sql, clock: systemClock, newId, log: testLog })
  await sql`
    insert into pipeline (id, namespace, layer, name, type, owner, draft_snapshot, draft_machine_version, draft_dirty)
    values (${pipelineId}, 'default', 'gold', 'orders', 'sql', 'ada', '{}', 1, false)`
  const attempt = await pro.attempt({ namespace: 'default', layer: 'gold', name: 'orders' })
  const { commit } = await attempt.write('select 1 as id', 'append')
  expect(await pro.merge(attempt, commit)).toBe('merged')
  await sql`insert into lake_ref (name, kind, base) select 'dev', 'user', number from lake_ref where name = 'main'`
})

const grant = (permission: Permission) =>
  makeSharing({ db: pro.db, newId }).createGrant({
    grantorId: 'ada',
    granteeId: 'bob',
    resourceType: 'pipeline',
    resourceId: pipelineId,
    permission,
  })

/** Bob's answer, with the names of tables replaced. */
async function ask(method: string, path: string, body?: object) {
  const init = { method, ...(body && { body: JSON.stringify(body) }) }
  const answer = await pro.fetch(`/iceberg/v1/${path}`, 'bob', init)
  return { status: answer.status, text: (await answer.text()).replace(/orders|absent/g, 'TABLE') }
}

test('a reader loads nothing and gets no credentials after the revocation', async () => {
  const reads = (warehouse: string, table: string) =>
    [
      ['GET', `${TABLES}/${table}`],
      ['HEAD', `${TABLES}/${table}`],
      ['GET', `${TABLES}/${table}/credentials`],
      ['POST', `${TABLES}/${table}/metrics`],
    ].map(([method = '', path]) =>
      ask(method, `${warehouse}${path}`, method === 'POST' ? { 'report-type': 'scan-report' } : undefined),
    )
  const lists = (warehouse: string) =>
    Promise.all(['/namespaces', TABLES].map((path) => ask('GET', `${warehouse}${path}`)))
  const warehouses = ['sluice', 'sluice.dev']
  const before = await Promise.all(warehouses.map(lists))
  const { id } = await grant('read')
  for (const warehouse of warehouses) {
    const found = await Promise.all(reads(warehouse, 'orders'))
    expect(found.map(({ status }) => status)).toEqual([200, 204, 200, 204])
    expect((await lists(warehouse))[1]?.text).toContain('TABLE')
  }
  expect(await makeSharing({ db: pro.db, newId }).revokeGrant(id)).toBe(true)
  for (const warehouse of warehouses) {
    const hidden = await Promise.all(reads(warehouse, 'orders'))
    expect(hidden.map(({ status }) => status)).toEqual([404, 404, 404, 404])
    expect(hidden).toEqual(await Promise.all(reads(warehouse, 'absent')))
  }
  expect(await Promise.all(warehouses.map(lists))).toEqual(before)
})

test('the audit log has the refused writes of a reader', async () => {
  await grant('read')
  const path = `sluice.dev${TABLES}/orders`
  const refused = [await ask('POST', path, { requirements: [], updates: [] }), await ask('DELETE', path)]
  expect(refused.map(({ status }) => status)).toEqual([403, 403])
  const { entries } = await audit.list({ limit: 2, offset: 0 })
  const resource = `/iceberg/v1/${path}`
  expect(entries).toMatchObject([
    { action: 'delete', resource, status: 403, user_id: 'bob' },
    { action: 'post', resource, status: 403, user_id: 'bob' },
  ])
})
