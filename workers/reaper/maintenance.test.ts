import { beforeEach, expect, setDefaultTimeout, test } from 'bun:test'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Code, ConnectError } from '@connectrpc/connect'
import { testLog } from '../../app/composition/test-app.ts'
import { systemClock } from '../../app/core/clock.ts'
import { newId } from '../../app/core/ids.ts'
import { reapingNow } from '../../app/retention/test-rows.ts'
import type { RunnerClient } from '../../app/rpc/clients.ts'
import { headOfMain } from '../../app/versions/store/branches.ts'
import { tableAt } from '../../app/versions/store/tables.ts'
import type { TableName } from '../../ground/names.ts'
import { useRunner } from '../../sidecars/runner/test-runner.ts'
import type { MaintenanceOutcome } from '../messages/counted.ts'
import { answerObjectCall, directObjects } from '../runtime/object-calls.ts'
import { maintainTables } from './maintenance.ts'
import { makeReaper } from './reaper-host.ts'

setDefaultTimeout(120_000)
const { service, runner, aTable, publish, judgeMain } = await useRunner({})
const { sql } = service

// Earlier tables of this file must not be maintained again.
beforeEach(async () => {
  await sql`update lake_content set operation = 'replace'`
  await sql`update lake_ref set created_by = null`
})

const endAttempts = () => sql`update run_attempt set state = 'closed'`

async function tableOfManyFiles(): Promise<TableName> {
  const table = aTable()
  for (let n = 1; n <= 9; n++)
    await publish(table, `select ${n} as id`, { 'config.yaml': 'merge_strategy: append_only' })
  await endAttempts()
  return table
}

/** Performs the duty. `during` is called after the work of the runner and before the merge. */
async function tick({
  during = async () => {},
  maintainTable = runner.client.maintainTable,
}: {
  during?: () => Promise<unknown>
  maintainTable?: RunnerClient['maintainTable']
} = {}) {
  const outcomes: [MaintenanceOutcome, number][] = []
  const client: Pick<RunnerClient, 'maintainTable'> = {
    async maintainTable(request, options) {
      const answer = await maintainTable(request, options)
      await during()
      return answer
    },
  }
  await maintainTables(await reapingNow(sql, directObjects(service.objects)), {
    runners: [{ url: runner.url, service: { ...runner.client, ...client }, check: async () => null }],
    tokens: service.tokens,
    clock: systemClock,
    publicUrl: service.url,
    lakeRoot: service.lakeRoot,
    tableBytes: 1_073_741_824,
    tickBytes: 4_294_967_296,
    newId,
    log: testLog,
    onOutcome: (outcome, bytes) => outcomes.push([outcome, bytes]),
  })
  return outcomes
}

const contentOf = async (table: TableName) => (await tableAt(sql, await headOfMain(sql), table))?.contentId
const ONE_TO_NINE = '1,2,3,4,5,6,7,8,9'
async function expectIds(table: TableName, ids: string) {
  const results = await judgeMain(table, {
    ids: `select * from (select string_agg(id::varchar, ',' order by id) as ids from {{ this }}) where ids <> '${ids}'`,
  })
  expect(results).toMatchObject([{ passed: true, error: '' }])
}
const branches = () => sql`
  select name, state, closed_at from lake_ref where created_by = 'maintenance' and state <> 'merged'`

test('many small files of main become one file by a commit of maintenance', async () => {
  const table = await tableOfManyFiles()
  const runs = await sql`select id from run`
  expect(await tick()).toEqual([['replaced', expect.any(Number)]])
  await expectIds(table, ONE_TO_NINE)
  expect(await sql`select id from run`).toHaveLength(runs.length)
  const [commit] = await sql`select * from lake_commit where number = ${await headOfMain(sql)}`
  expect(commit).toMatchObject({
    author: 'maintenance',
    run_id: null,
    tables: [`default.bronze.${table.name}`],
    message: `maintenance of default.bronze.${table.name}: 9 files became 1`,
  })
  const [content] = await sql`select * from lake_content where id = ${(await contentOf(table)) ?? ''}`
  expect(content).toMatchObject({ operation: 'replace', rows_added: '0', rows_removed: '0', row_count: '9' })
  expect(await tick()).toEqual([])
  // The next run finds its table as before.
  await publish(table, 'select 10 as id', { 'config.yaml': 'merge_strategy: append_only' })
})

test('maintenance leaves a table alone while a run writes the table', async () => {
  const table = await tableOfManyFiles()
  await service.attempt(table, {})
  expect(await tick()).toEqual([])
  await endAttempts()
  expect(await tick()).toMatchObject([['replaced', expect.any(Number)]])
})

test('a run that starts during maintenance wins, and the table waits', async () => {
  const table = await tableOfManyFiles()
  const before = await contentOf(table)
  expect(await tick({ during: () => service.attempt(table, {}) })).toEqual([['abandoned', 0]])
  expect(await contentOf(table)).toBe(before)
  expect(await branches()).toMatchObject([{ state: 'deleted' }])
  await endAttempts()
  expect(await tick()).toEqual([])
  await sql`update lake_ref set closed_at = closed_at - interval '61 minutes' where created_by = 'maintenance'`
  expect(await tick()).toMatchObject([['replaced', expect.any(Number)]])
})

test('a change of main during maintenance stays, and maintenance is abandoned', async () => {
  const table = await tableOfManyFiles()
  const during = async () => {
    await publish(table, 'select 99 as id')
    await endAttempts()
  }
  expect(await tick({ during })).toEqual([['abandoned', 0]])
  await expectIds(table, '99')
})

test('maintenance without a free slot leaves no branch and no failure', async () => {
  await tableOfManyFiles()
  const maintainTable = () => Promise.reject(new ConnectError('no slot', Code.ResourceExhausted))
  expect(await tick({ maintainTable })).toEqual([])
  expect(await branches()).toHaveLength(0)
  expect(await tick()).toHaveLength(1)
})

test('a failed runner closes the branch, and other tables are maintained', async () => {
  const tables = [await tableOfManyFiles(), await tableOfManyFiles()]
  let calls = 0
  const maintainTable: RunnerClient['maintainTable'] = (request, options) =>
    calls++ === 0
      ? Promise.reject(new ConnectError('engine lost', Code.Internal))
      : runner.client.maintainTable(request, options)
  const outcomes = await tick({ maintainTable })
  expect(outcomes.map(([outcome]) => outcome)).toEqual(['failed', 'replaced'])
  for (const table of tables) await expectIds(table, ONE_TO_NINE)
  expect(await branches()).toMatchObject([{ state: 'deleted' }])
})

test('a requested tick ends while a table is maintained', async () => {
  const table = await tableOfManyFiles()
  const asked = Promise.withResolvers<void>()
  // A runner that accepts the work and never answers.
  const silent = createServer((request) => {
    if (request.url?.endsWith('/MaintainTable')) asked.resolve()
  })
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
  const host = makeReaper({
    sql,
    answerObjectCall: (call) => answerObjectCall(service.objects, call),
    settings: { processId: newId(), databaseUrl: service.databaseUrl, logFormat: 'text', tracing: null },
    maintenance: {
      runnerUrls: [`http://127.0.0.1:${(silent.address() as AddressInfo).port}`],
      publicUrl: service.url,
      lakeRoot: service.lakeRoot,
      sidecarToken: '',
      sidecarTokenUrls: [],
      tableBytes: 1_073_741_824,
      tickBytes: 4_294_967_296,
    },
    log: testLog,
    onMessage: () => {},
  })
  await host.run()
  await asked.promise
  await host.run()
  expect((await host.dryRun()).incomplete).toEqual([])
  await host.stop()
  silent.closeAllConnections()
  silent.close()
  await expectIds(table, ONE_TO_NINE)
})
