import { beforeEach, expect, test } from 'bun:test'
import { openDatabase } from '../../drizzle/client.ts'
import type { TableName } from '../../ground/names.ts'
import { useDatabase } from '../../tools/service/database.ts'
import { EVERYTHING, type Visible } from '../core/access.ts'
import { newId } from '../core/ids.ts'
import { listRuns } from '../runs/store/list.ts'
import { tablesIn } from '../versions/views.ts'
import { makeCodeVisibility } from './code-visibility.ts'
import { makeEnforcement, visibleTables, visibleZones } from './service.ts'

const opened = useDatabase({ rawConnections: 2 })
beforeEach(async () => {
  const { sql } = opened
  await sql`truncate main_entry, lake_content, run, pipeline, landing_zone, access_grant cascade`
  await sql`delete from namespace where name <> 'default'`
})

const NOTHING: Visible = { pipelines: [], zones: [], namespaces: [] }

async function namespace(name: string, owner: string | null = null) {
  const id = newId()
  await opened.sql`insert into namespace (id, name, owner) values (${id}, ${name}, ${owner})`
  return id
}
async function pipeline(
  at: string,
  name: string,
  { owner = null, isDeleted = false }: { owner?: string | null; isDeleted?: boolean } = {},
) {
  const id = newId()
  await opened.sql`
    insert into pipeline (id, namespace, layer, name, type, owner, draft_snapshot, draft_machine_version, draft_dirty, deleted_at)
    values (${id}, ${at}, 'gold', ${name}, 'sql', ${owner}, '{}', 1, false, ${isDeleted ? new Date(0) : null})`
  return id
}
async function zone(at: string, name: string, owner: string | null = null) {
  const id = newId()
  await opened.sql`insert into landing_zone (id, namespace, name, owner) values (${id}, ${at}, ${name}, ${owner})`
  return id
}
async function table(
  at: string,
  name: string,
  { from = 1, to = null }: { from?: number; to?: number | null } = {},
) {
  const { sql } = opened
  const id = newId()
  await sql`
    insert into lake_content (id, table_uuid, metadata_location, columns, row_count, size_bytes)
    values (${id}, ${newId()}, 'm', '[]', 1, 1)`
  await sql`
    insert into main_entry (namespace, layer, name, content_id, from_commit, to_commit)
    values (${at}, 'gold', ${name}, ${id}, ${from}, ${to})`
}
async function run(pipelineId: string, at: string) {
  const id = newId()
  await opened.sql`
    insert into run (id, pipeline_id, namespace, layer, pipeline, pipeline_type, trigger, pins, landing_zones, snapshot,
      machine_version, status, waiting)
    values (${id}, ${pipelineId}, ${at}, 'gold', 'p', 'sql', 'manual', '{}', '[]', '{}', 1, 'success', false)`
  return id
}
const names = (tables: readonly TableName[]) => tables.map((each) => `${each.namespace}.${each.name}`).sort()
const seenAt = async (visible: Visible, commit = 1) =>
  names(await tablesIn(opened.sql, { commit, branch: null }, visible))

test("a table follows its live pipeline's visibility, otherwise its namespace's", async () => {
  const made = await pipeline('team', 'made')
  await pipeline('team', 'left', { isDeleted: true })
  for (const name of ['made', 'left', 'orphan']) await table('team', name)
  await table('other', 'orphan')
  expect(await seenAt(NOTHING)).toEqual([])
  expect(await seenAt({ ...NOTHING, pipelines: [made] })).toEqual(['team.made'])
  expect(await seenAt({ ...NOTHING, namespaces: ['team'] })).toEqual(['team.left', 'team.orphan'])
  expect(await seenAt({ ...NOTHING, pipelines: 'all' })).toEqual(['team.made'])
  expect(await seenAt({ ...NOTHING, namespaces: 'all' })).toEqual([
    'other.orphan',
    'team.left',
    'team.orphan',
  ])
  expect(await seenAt(EVERYTHING)).toHaveLength(4)
})

test('a commit shows the tables that main had at that commit', async () => {
  await table('team', 'gone', { from: 1, to: 2 })
  await table('team', 'new', { from: 2 })
  const visible = { ...NOTHING, namespaces: ['team'] }
  expect([await seenAt(visible, 1), await seenAt(visible, 2)]).toEqual([['team.gone'], ['team.new']])
})

test('hidden names and unknown names are both left out of lists', async () => {
  const made = await pipeline('team', 'made')
  await pipeline('team', 'hidden')
  const visible = await zone('team', 'visible')
  await zone('team', 'hidden')
  const requestedTables = ['made', 'hidden', 'nothing'].map(
    (name): TableName => ({ namespace: 'team', layer: 'gold', name }),
  )
  const zones = ['team.visible', 'team.hidden', 'team.nothing']
  const some = { pipelines: [made], zones: [visible], namespaces: [] }
  expect(names(await visibleTables(opened.sql, requestedTables, some))).toEqual(['team.made'])
  expect(await visibleZones(opened.sql, zones, some)).toEqual(['team.visible'])
  expect(await visibleTables(opened.sql, requestedTables, EVERYTHING)).toEqual(requestedTables)
  expect(await visibleZones(opened.sql, zones, EVERYTHING)).toEqual(zones)
})

test('a caller with full visibility causes the same statements as no filter', async () => {
  const queries: string[][] = [[], []]
  for (const [index, filter] of [{}, { visible: 'all' as const }].entries()) {
    const watched = openDatabase(opened.url, {
      connections: 1,
      rawConnections: 1,
      application: 'test',
    })
    watched.sql.options.debug = (_, query) => void queries[index]?.push(query.replace(/\s+/g, ' '))
    for (const offset of [0, 5_000])
      for (const named of [{}, { namespace: 'default' }, { status: 'failed' }])
        await listRuns(
          watched.sql,
          { ...named, ...filter },
          { key: 'created_at', descending: true },
          { limit: 50, offset },
        )
    await watched.close()
  }
  expect(queries[0]?.length).toBeGreaterThan(5)
  expect(queries[1]).toEqual(queries[0] ?? [])
})

test("a run sees what its pipeline's owner sees, otherwise its namespace's owner", async () => {
  const { sql } = opened
  const codeVisibility = makeCodeVisibility({ sql, enforcement: makeEnforcement({ sql }), admins: ['root'] })
  await namespace('team', 'ada')
  const [adas, bobs] = [
    await pipeline('default', 'a', { owner: 'ada' }),
    await pipeline('default', 'b', { owner: 'bob' }),
  ]
  const [ofTeam, roots] = [await pipeline('team', 't'), await pipeline('default', 'r', { owner: 'root' })]
  const zoneOfAda = await zone('default', 'z', 'ada')
  const ofAda = { pipelines: [adas, ofTeam].sort(), zones: [zoneOfAda], namespaces: ['team'] }
  const ofRun = async (id: string) => {
    const visible = await codeVisibility.ofRun(await run(id, 'default'))
    return visible.pipelines === 'all'
      ? 'everything'
      : { ...visible, pipelines: [...visible.pipelines].sort() }
  }
  expect(await ofRun(adas)).toEqual(ofAda)
  expect(await ofRun(ofTeam)).toEqual(ofAda)
  expect(await ofRun(bobs)).toEqual({ pipelines: [bobs], zones: [], namespaces: [] })
  expect(await ofRun(roots)).toBe('everything')
  await sql`
    insert into access_grant (id, grantor_id, grantee_id, resource_type, resource_id, permission)
    values (${newId()}, 'ada', 'bob', 'landing_zone', ${zoneOfAda}, 'read')`
  expect(await ofRun(bobs)).toEqual({ pipelines: [bobs], zones: [zoneOfAda], namespaces: [] })
})

test('a run archives only files that all its owners may write', async () => {
  const { sql } = opened
  const codeVisibility = makeCodeVisibility({ sql, enforcement: makeEnforcement({ sql }), admins: ['root'] })
  const [adas, nobodys] = [await zone('default', 'hers', 'ada'), await zone('default', 'free')]
  const owners = { ada: 'ada', reader: 'reader', writer: 'writer', root: 'root', nobody: null }
  for (const [grantee, permission] of [
    ['reader', 'read'],
    ['writer', 'write'],
  ] as const)
    await sql`
      insert into access_grant (id, grantor_id, grantee_id, resource_type, resource_id, permission)
      values (${newId()}, 'ada', ${grantee}, 'landing_zone', ${adas}, ${permission})`
  const decisionsFor = async (runId: string) => {
    const zones = [
      { id: adas, owner: 'ada' },
      { id: nobodys, owner: null },
    ]
    return Promise.all(
      zones.map((one) =>
        codeVisibility.mayArchive(runId, { type: 'landing_zone', namespace: 'default', ...one }),
      ),
    )
  }
  const decisions: Record<string, boolean[]> = {}
  for (const [name, owner] of Object.entries(owners))
    decisions[name] = await decisionsFor(await run(await pipeline('default', name, { owner }), 'default'))
  expect(decisions).toEqual({
    ada: [true, false],
    reader: [false, false],
    writer: [true, false],
    root: [true, true],
    nobody: [false, true],
  })
  const handed = await pipeline('default', 'handed', { owner: 'ada' })
  await sql`update pipeline set handed_by = '{writer}' where id = ${handed}`
  expect(await decisionsFor(await run(handed, 'default'))).toEqual([true, false])
  await sql`update pipeline set handed_by = '{writer,reader}' where id = ${handed}`
  expect(await decisionsFor(await run(handed, 'default'))).toEqual([false, false])
})

test('code without an owner sees exactly the unowned resources', async () => {
  const { sql } = opened
  const codeVisibility = makeCodeVisibility({ sql, enforcement: makeEnforcement({ sql }), admins: [] })
  await namespace('team', 'ada')
  await namespace('free')
  const nobodys = [await pipeline('default', 'one'), await pipeline('free', 'two')]
  for (const [at, owner] of [
    ['default', 'ada'],
    ['team', null],
  ] as const) {
    await pipeline(at, 'hers', { owner })
    await zone(at, 'hers', owner)
  }
  const free = await zone('free', 'z')
  await table('deleted', 'left')
  const visible = await codeVisibility.ofRun(await run(nobodys[0] ?? '', 'default'))
  expect([...visible.pipelines].sort()).toEqual(nobodys.sort())
  expect(visible.zones).toEqual([free])
  expect([...visible.namespaces].sort()).toEqual(['default', 'deleted', 'free'])
})

test('concurrent visibility lookups share a call, later ones do not', async () => {
  const { sql } = opened
  let looks = 0
  const enforcement = {
    check: async () => false,
    listVisible: async () => {
      looks += 1
      return NOTHING
    },
  }
  const codeVisibility = makeCodeVisibility({ sql, enforcement, admins: [] })
  const ada = { userId: 'ada', roles: [] }
  await Promise.all(Array.from({ length: 20 }, () => codeVisibility.ofReader(ada)))
  expect(looks).toBe(1)
  await Promise.all([
    codeVisibility.ofReader(ada),
    codeVisibility.ofReader({ userId: 'bob', roles: [] }),
    codeVisibility.ofReader({ ...ada, roles: ['x'] }),
  ])
  expect(looks).toBe(4)
  const first = codeVisibility.ofReader(ada)
  await Promise.resolve()
  await Promise.all([first, codeVisibility.ofReader(ada)])
  expect(looks).toBeGreaterThan(5)
})
