import { beforeAll, expect, test } from 'bun:test'
import { duringTests } from '../../tools/kit/during.ts'
import type { CodeVisibility } from '../access/code-visibility.ts'
import { EVERYTHING, type Visible } from '../core/access.ts'
import { newId } from '../core/ids.ts'
import { openTestCatalog } from '../iceberg/test-catalog.ts'

// Visibility of data for code that reads with a token, in an edition with restricted visibility.

const NOTHING: Visible = { pipelines: [], zones: [], namespaces: [] }
const OWN = { namespace: 'team', layer: 'gold', name: 'own' } as const
const OTHER = { namespace: 'team', layer: 'gold', name: 'other' } as const
const READER = { userId: 'ada', roles: [] }

/** The visibility of every reader and of the owner of every run. */
let visible: Visible
const asked: unknown[] = []
const codeVisibility: CodeVisibility = {
  ofRun: async (runId) => {
    asked.push(runId)
    return visible
  },
  ofReader: async (reader) => {
    asked.push(reader)
    return visible
  },
  mayArchive: async (_, { id }) => mayWrite.includes(id),
}
/** Ids of zones that every run may archive. */
let mayWrite: string[] = []
let pipelineOfOther: string
const catalog = duringTests(() => openTestCatalog(codeVisibility))
beforeAll(async () => {
  visible = EVERYTHING
  pipelineOfOther = await pipeline('other')
  for (const table of [OWN, OTHER]) {
    const attempt = await catalog.attempt(table)
    const { commit } = await attempt.write('SELECT 1 AS id', 'append')
    expect(await catalog.merge(attempt, commit)).toBe('merged')
  }
})

async function pipeline(name: string) {
  const id = newId()
  await catalog.sql`
    insert into pipeline (id, namespace, layer, name, type, draft_snapshot, draft_machine_version, draft_dirty)
    values (${id}, 'team', 'gold', ${name}, 'sql', '{}', 1, false)`
  return id
}
async function zone(name: string) {
  const id = newId()
  await catalog.sql`insert into landing_zone (id, namespace, name) values (${id}, 'team', ${name})`
  const path = `team/landing/${name}/f.csv`
  const { versionId } = await catalog.objects.put(path, new TextEncoder().encode(`secret of ${name}`))
  const [file] = await catalog.sql<{ id: string; seq: string }[]>`
    insert into landing_file (id, zone_id, filename, original_name, path, version_id, size_bytes, content_type)
    values (${newId()}, ${id}, 'f.csv', 'f.csv', ${path}, ${versionId}, 3, 'text/csv') returning id, seq`
  return { id, path, fileId: file?.id ?? '', seq: file?.seq ?? '0' }
}
const reading = async (reader?: typeof READER) => {
  const { commit } = await catalog.reader()
  const expiresAt = new Date(Date.now() + 60_000)
  return catalog.tokens.read({ commit, expiresAt, landing: 'team', reader })
}
const TABLES = '/catalog/v1/{}/namespaces/team%1Fgold/tables'
const get = async (path: string, token: string, warehouse = 'sluice') => {
  const response = await catalog.fetch(path.replace('{}', warehouse), token)
  return { status: response.status, text: await response.text() }
}

test('a hidden table gets the same answer as a missing table', async () => {
  const attempt = await catalog.attempt(OWN)
  const warehouse = `sluice@${attempt.branch}`
  const asAttempt = (path: string) => get(path, attempt.token, warehouse)
  const token = await reading(READER)
  const asReader = (path: string) => get(path, token)
  for (const ask of [asAttempt, asReader]) {
    visible = NOTHING
    const missing = await ask(`${TABLES}/none`)
    expect(missing.status).toBe(404)
    const hidden = await ask(`${TABLES}/other`)
    expect([hidden.status, hidden.text.replaceAll('other', 'none')]).toEqual([404, missing.text])
    visible = { ...NOTHING, pipelines: [pipelineOfOther] }
    expect((await ask(`${TABLES}/other`)).status).toBe(200)
    expect((await ask(TABLES)).text).toContain('other')
  }
  expect(asked).toEqual(expect.arrayContaining([attempt.runId, READER]))
  // An attempt always sees its target table.
  visible = NOTHING
  expect((await asAttempt(`${TABLES}/own`)).status).toBe(200)
  expect((await asReader(`${TABLES}/own`)).status).toBe(404)
})

test('lists contain only visible tables; a restricted reader cannot list main', async () => {
  visible = NOTHING
  const token = await reading(READER)
  expect((await get(TABLES, token)).status).toBe(404)
  expect((await get('/catalog/v1/{}/namespaces', token)).text).toBe('{"namespaces":[]}')
  const { commit } = await catalog.reader()
  expect((await get(`/catalog/sluice/v1/commits/${commit}/tables`, token)).status).toBe(403)
  const all = await reading()
  expect((await get(TABLES, all)).text).toContain('other')
  expect((await get('/catalog/v1/{}/namespaces', all)).text).toContain('team')
  expect((await get(`/catalog/sluice/v1/commits/${commit}/tables`, all)).text).toContain('other')
})

test('only code that sees a zone reads its files, frozen or not', async () => {
  const [seen, hidden] = [await zone('seen'), await zone('hidden')]
  const attempt = await catalog.attempt(OWN)
  await catalog.sql`
    insert into run_attempt (run_id, attempt, pipeline_id, branch, base_commit, landing_watermark, runner_url)
    values (${attempt.runId}, 1, ${newId()}, ${attempt.branch}, 0, ${hidden.seq}, '')`
  for (const { id, fileId } of [seen, hidden])
    await catalog.sql`
      insert into run_file (run_id, attempt, landing_file_id, zone_id) values (${attempt.runId}, 1, ${fileId}, ${id})`
  for (const token of [attempt.token, await reading(READER)]) {
    visible = { ...NOTHING, zones: [seen.id] }
    expect((await get('/catalog/sluice/v1/landing/team/seen', token)).text).toContain('f.csv')
    expect((await get(`/lake/objects/${seen.path}`, token)).text).toBe('secret of seen')
    const none = await get('/catalog/sluice/v1/landing/team/none', token)
    const refused = await get('/catalog/sluice/v1/landing/team/hidden', token)
    expect([refused.status, refused.text.replaceAll('hidden', 'none')]).toEqual([none.status, none.text])
    expect((await get(`/lake/objects/${hidden.path}`, token)).status).toBe(403)
    visible = EVERYTHING
    expect((await get('/catalog/sluice/v1/landing/team/hidden', token)).text).toContain('f.csv')
    expect((await get(`/lake/objects/${hidden.path}`, token)).text).toBe('secret of hidden')
  }
})

test("a run's right to archive is stored with its frozen files", async () => {
  visible = EVERYTHING
  const zones = { own: await zone('own'), lent: await zone('lent'), late: await zone('late') }
  mayWrite = [zones.own.id]
  const attempt = await catalog.attempt(OWN)
  await catalog.sql`
    insert into run_attempt (run_id, attempt, pipeline_id, branch, base_commit, landing_watermark, runner_url)
    values (${attempt.runId}, 1, ${newId()}, ${attempt.branch}, 0, ${zones.late.seq}, '')`
  for (const { id, fileId } of [zones.own, zones.lent])
    await catalog.sql`
      insert into run_file (run_id, attempt, landing_file_id, zone_id) values (${attempt.runId}, 1, ${fileId}, ${id})`
  for (const name of ['own', 'lent', 'late'])
    expect((await get(`/catalog/sluice/v1/landing/team/${name}`, attempt.token)).text).toContain('f.csv')
  // A later right to write applies only to later attempts.
  mayWrite = Object.values(zones).map(({ id }) => id)
  await get('/catalog/sluice/v1/landing/team/lent', attempt.token)
  const remembered = await catalog.sql`
    select z.name, r.may_archive from run_file r join landing_zone z on z.id = r.zone_id
    where r.run_id = ${attempt.runId} order by z.name`
  expect(remembered.map((row) => [row.name, row.may_archive])).toEqual([
    ['late', false],
    ['lent', false],
    ['own', true],
  ])
})
