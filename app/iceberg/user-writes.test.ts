import { beforeAll, expect, test } from 'bun:test'
import type { ManifestFile } from '../../lake/iceberg/format/data-file.ts'
import { parseJson, stringifyJson } from '../../lake/iceberg/format/json.ts'
import { keyIn } from '../../lake/iceberg/format/location.ts'
import { readManifestList, writeManifest, writeManifestList } from '../../lake/iceberg/format/manifest.ts'
import { currentSchema, metadataFrom, type TableMetadata } from '../../lake/iceberg/format/metadata.ts'
import type { TableUpdate } from '../../lake/iceberg/format/wire.ts'
import { createViewBody } from '../../lake/iceberg/views/view.ts'
import type { CommitPlan } from '../../lake/iceberg/write/write.ts'
import { duringTests } from '../../tools/kit/during.ts'
import type { Resources } from '../access/service.ts'
import { identityOf } from '../access/testing.ts'
import type { Visible } from '../core/access.ts'
import { newId } from '../core/ids.ts'
import { bytesOf } from '../objects/body.ts'
import { headOfMain, lockedHead } from '../versions/store/branches.ts'
import { lockedBranch } from '../versions/store/user-branches.ts'
import { changesOf, dropUnchanged, mergeUserBranch } from '../versions/store/user-merges.ts'
import { openTestCatalog, type TestCatalog } from './test-catalog.ts'

// Writes of users with Iceberg REST, on branches.

const open = duringTests(() => openTestCatalog())
const NAMESPACE = '/namespaces/default%1Fgold/tables'
const schema = { type: 'struct', fields: [{ id: 1, name: 'a', type: 'int', required: false }] }
let names = 0
const newName = (kind: string) => `${kind}-${names++}`

interface Answer {
  status: number
  body: { error?: { type: string; message: string }; metadata: object; 'metadata-location'?: string }
}

async function send(
  path: string,
  body: unknown,
  { method = 'POST', lake = open, token = null, ...headers }: SendOptions = {},
): Promise<Answer> {
  const answer = await lake.fetch(`/iceberg/v1/${path}`, token, {
    method,
    headers,
    body: stringifyJson(body as object),
  })
  const text = await answer.text()
  return { status: answer.status, body: text === '' ? {} : parseJson(text) } as Answer
}
type SendOptions = { method?: string; lake?: TestCatalog; token?: string | null; 'idempotency-key'?: string }

/** Opens a branch of a user on the head of main. */
async function newBranch(lake = open): Promise<string> {
  const name = newName('dev')
  await lake.sql`
    insert into lake_ref (name, kind, base) select ${name}, 'user', number from lake_ref where name = 'main'`
  return name
}

/** Merges a branch as POST /branches/{branch}/merge does after its tests. */
async function mergeBranch(name: string): Promise<void> {
  await open.sql.begin(async (tx) => {
    await lockedHead(tx)
    const branch = await lockedBranch(tx, name)
    if (branch === null) throw new Error(`branch ${name} is not open`)
    const changes = await changesOf(tx, name)
    await mergeUserBranch(tx, { branch, id: newId(), author: null, message: 'merged', changes })
  })
}

/** Makes a table of main with the row `a = 1`. */
async function tableOnMain(lake = open): Promise<string> {
  const name = newName('t')
  const attempt = await lake.attempt({ namespace: 'default', layer: 'gold', name })
  const { commit } = await attempt.write('select 1 as a', 'append')
  expect(await lake.merge(attempt, commit)).toBe('merged')
  return name
}

/** An append that an engine computed from main, with its files in the store. */
const plan = async (
  name: string,
  query = 'select 2 as a',
  { lake = open, directory }: { lake?: TestCatalog; directory?: string } = {},
): Promise<CommitPlan> =>
  (await lake.attempt({ namespace: 'default', layer: 'gold', name })).plan(query, 'append', directory)

const rowsOn = async (branch: string, name: string) => {
  const answer = await open.fetch(`/iceberg/v1/sluice.${branch}${NAMESPACE}/${name}`, null)
  const { metadata } = parseJson(await answer.text()) as { metadata: object }
  return open.rows((await open.reader()).token, metadataFrom(metadata))
}

const commitsOf = async (branch: string): Promise<object[]> => [
  ...(await open.sql<{ message: string; tables: string[] }[]>`
    select message, tables from lake_commit where ref = ${branch} order by created_at`),
]

test('a user creates a table on a branch and commits to it', async () => {
  const [branch, name] = [await newBranch(), newName('t')]
  const tables = `sluice.${branch}${NAMESPACE}`
  const created = await send(tables, { name, schema, properties: { owner: 'ada' } })
  expect([created.status, created.body.metadata]).toMatchObject([200, { properties: { owner: 'ada' } }])
  expect(await send(tables, { name, schema })).toMatchObject({
    status: 409,
    body: { error: { type: 'AlreadyExistsException' } },
  })
  const evolved = await send(`${tables}/${name}`, {
    requirements: [{ type: 'assert-current-schema-id', 'current-schema-id': 0 }],
    updates: [{ action: 'set-properties', updates: { owner: 'bob', 'gc.enabled': 'false' } }],
  })
  expect([evolved.status, evolved.body.metadata]).toMatchObject([200, { properties: { owner: 'bob' } }])
  expect((await open.fetch(`/iceberg/v1/sluice${NAMESPACE}/${name}`, null)).status).toBe(404)
  expect(await commitsOf(branch)).toEqual([
    { message: `create default.gold.${name}`, tables: [`default.gold.${name}`] },
    { message: `create default.gold.${name}`, tables: [`default.gold.${name}`] },
  ])
})

test('a staged table exists only after its first commit', async () => {
  const [branch, name] = [await newBranch(), newName('t')]
  const tables = `sluice.${branch}${NAMESPACE}`
  const staged = await send(tables, { name, schema, 'stage-create': true })
  expect([staged.status, staged.body['metadata-location']]).toEqual([200, undefined])
  expect((await send(`${tables}/${name}`, { requirements: [], updates: [] })).body.error?.type).toBe(
    'NoSuchTableException',
  )
  const { updates, requirements } = await plan(name)
  expect((await send(`${tables}/${name}`, { requirements, updates })).status).toBe(200)
  expect(await rowsOn(branch, name)).toEqual([{ a: 2 }])
  expect((await send(`${tables}/${name}`, { requirements, updates })).body.error?.type).toBe(
    'CommitFailedException',
  )
})

test('an append to a table of main shows on the branch only', async () => {
  const [name, branch] = [await tableOnMain(), await newBranch()]
  const { requirements, updates } = await plan(name)
  expect((await send(`sluice.${branch}${NAMESPACE}/${name}`, { requirements, updates })).status).toBe(200)
  expect(await rowsOn(branch, name)).toEqual([{ a: 1 }, { a: 2 }])
  const other = await newBranch()
  expect(await rowsOn(other, name)).toEqual([{ a: 1 }])
})

test('a commit that was computed from an older state is refused', async () => {
  const [name, branch] = [await tableOnMain(), await newBranch()]
  const plans = [await plan(name), await plan(name, 'select 3 as a')]
  const answers = await Promise.all(
    plans.map(({ requirements, updates }) =>
      send(`sluice.${branch}${NAMESPACE}/${name}`, { requirements, updates }),
    ),
  )
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 409])
  expect(answers.find(({ status }) => status === 409)?.body.error?.type).toBe('CommitFailedException')
  expect(await rowsOn(branch, name)).toHaveLength(2)
})

test('a transaction commits all its tables or none', async () => {
  const [one, two, branch] = [await tableOnMain(), await tableOnMain(), await newBranch()]
  const change = async (name: string, { requirements, updates }: CommitPlan) => ({
    identifier: { namespace: ['default', 'gold'], name },
    requirements,
    updates,
  })
  const [first, second] = [await plan(one), await plan(two)]
  const path = `sluice.${branch}/transactions/commit`
  const stale = {
    ...second,
    requirements: [{ type: 'assert-current-schema-id' as const, 'current-schema-id': 7 }],
  }
  const refused = await send(path, { 'table-changes': [await change(one, first), await change(two, stale)] })
  expect([refused.status, refused.body.error?.type]).toEqual([409, 'CommitFailedException'])
  expect([await rowsOn(branch, one), await rowsOn(branch, two), await commitsOf(branch)]).toEqual([
    [{ a: 1 }],
    [{ a: 1 }],
    [],
  ])
  const done = await send(path, { 'table-changes': [await change(one, first), await change(two, second)] })
  expect(done.status).toBe(204)
  expect([await rowsOn(branch, one), await rowsOn(branch, two)]).toEqual([
    [{ a: 1 }, { a: 2 }],
    [{ a: 1 }, { a: 2 }],
  ])
  expect(await commitsOf(branch)).toHaveLength(1)
  for (const changes of [[], [await change(one, first), await change(one, first)]])
    expect((await send(path, { 'table-changes': changes })).body.error?.type).toBe('BadRequestException')
  const none = { ...(await change(one, first)), identifier: { namespace: ['default', 'gold'], name: 'none' } }
  expect((await send(path, { 'table-changes': [none] })).body.error?.type).toBe('NoSuchTableException')
})

test('a table that a branch drops is gone from main after the merge only', async () => {
  const [name, branch, other] = [await tableOnMain(), await newBranch(), await newBranch()]
  const path = (warehouse: string) => `${warehouse}${NAMESPACE}/${name}`
  const status = async (warehouse: string) =>
    (await open.fetch(`/iceberg/v1/${path(warehouse)}`, null, { method: 'HEAD' })).status
  const drop = (warehouse: string) => open.fetch(`/iceberg/v1/${path(warehouse)}`, null, { method: 'DELETE' })
  expect((await drop('sluice')).status).toBe(403)
  expect((await drop(`sluice.${branch}`)).status).toBe(204)
  expect((await drop(`sluice.${branch}`)).status).toBe(404)
  expect([await status(`sluice.${branch}`), await status(`sluice.${other}`), await status('sluice')]).toEqual(
    [404, 204, 204],
  )
  const listed = await (await open.fetch(`/iceberg/v1/sluice.${branch}${NAMESPACE}`, null)).text()
  expect(listed).not.toContain(`"${name}"`)
  expect(await commitsOf(branch)).toEqual([
    { message: `drop default.gold.${name}`, tables: [`default.gold.${name}`] },
  ])
  const base = await headOfMain(open.sql)
  await mergeBranch(branch)
  expect([await status('sluice'), await status(`sluice.${base}`), await status(`sluice.${other}`)]).toEqual([
    404, 204, 204,
  ])
  // The name is free again.
  const later = await newBranch()
  expect((await send(`sluice.${later}${NAMESPACE}`, { name, schema })).status).toBe(200)
  await mergeBranch(later)
  expect(await status('sluice')).toBe(204)
})

test('an engine drops a view, and creates none without a query service', async () => {
  const name = newName('v')
  const attempt = await open.attempt({ namespace: 'default', layer: 'gold', name })
  const stored = createViewBody(
    { namespace: ['default', 'gold'], name },
    { sql: 'select 1 as a', schema: { ...schema, 'schema-id': 0 } as never, reads: [], runId: attempt.runId },
  )
  const views = '/namespaces/default%1Fgold/views'
  const answer = await open.fetch(`/catalog/v1/sluice.${attempt.branch}${views}`, attempt.token, {
    method: 'POST',
    body: JSON.stringify(stored),
  })
  const { config } = (await answer.json()) as { config: Record<string, string> }
  expect(await open.merge(attempt, config['x-sluice-commit'] ?? '')).toBe('merged')
  const branch = await newBranch()
  const path = `/iceberg/v1/sluice.${branch}${views}`
  expect((await send(`sluice.${branch}${views}`, { ...stored, name: newName('v') })).body.error?.type).toBe(
    'UnsupportedOperationException',
  )
  const drop = (address: string) => open.fetch(address, null, { method: 'DELETE' })
  expect((await drop(`/iceberg/v1/sluice.${branch}${NAMESPACE}/${name}`)).status).toBe(404)
  expect([(await drop(`${path}/${name}`)).status, (await drop(`${path}/${name}`)).status]).toEqual([204, 404])
  expect((await open.fetch(`/iceberg/v1/sluice${views}/${name}`, null)).status).toBe(200)
})

test('a branch drops a table and creates another of the same name', async () => {
  const [name, branch] = [await tableOnMain(), await newBranch()]
  const table = `sluice.${branch}${NAMESPACE}/${name}`
  const { requirements, updates } = await plan(name)
  expect((await open.fetch(`/iceberg/v1/${table}`, null, { method: 'DELETE' })).status).toBe(204)
  // The commit was computed from the dropped table.
  expect((await send(table, { requirements, updates })).body.error?.type).toBe('NoSuchTableException')
  expect((await send(`sluice.${branch}${NAMESPACE}`, { name, schema })).status).toBe(200)
  expect((await send(table, { requirements, updates })).body.error?.type).toBe('CommitFailedException')
  await mergeBranch(branch)
  const own = newName('own')
  const created = await newBranch()
  expect((await send(`sluice.${created}${NAMESPACE}`, { name: own, schema })).status).toBe(200)
  expect(
    (await open.fetch(`/iceberg/v1/sluice.${created}${NAMESPACE}/${own}`, null, { method: 'DELETE' })).status,
  ).toBe(204)
  expect(
    await open.sql.begin(async (tx) => {
      await dropUnchanged(tx, created)
      return [...(await changesOf(tx, created))]
    }),
  ).toHaveLength(0)
})

test('a repeated request with the same idempotency key gets the first answer', async () => {
  const [branch, name] = [await newBranch(), newName('t')]
  const tables = `sluice.${branch}${NAMESPACE}`
  const key = { 'idempotency-key': newName('key') }
  const first = await send(tables, { name, schema }, key)
  expect(await send(tables, { name, schema }, key)).toEqual(first)
  expect(first.status).toBe(200)
  expect(await commitsOf(branch)).toHaveLength(1)
  expect((await send(tables, { name: newName('t'), schema }, key)).status).toBe(409)
  expect((await send(tables, { name, schema }, { 'idempotency-key': 'é'.repeat(2) })).status).toBe(400)
})

test('main, past states and unknown branches refuse writes', async () => {
  const name = await tableOnMain()
  const { commit } = await open.reader()
  await open.sql`insert into lake_ref (name, kind, base) values ('v-kept', 'tag', ${commit})`
  const closed = await newBranch()
  await open.sql`update lake_ref set state = 'deleted', closed_at = now() where name = ${closed}`
  for (const [warehouse, status, type] of [
    ['sluice', 403, 'ForbiddenException'],
    [`sluice.${commit}`, 403, 'ForbiddenException'],
    ['sluice.v-kept', 403, 'ForbiddenException'],
    [`sluice.${closed}`, 404, 'NoSuchWarehouseException'],
    ['sluice.nobody', 404, 'NoSuchWarehouseException'],
  ] as const)
    for (const [path, body] of [
      [NAMESPACE, { name: 'x', schema }],
      [`${NAMESPACE}/${name}`, { requirements: [], updates: [] }],
      [
        '/transactions/commit',
        {
          'table-changes': [
            { identifier: { namespace: ['default', 'gold'], name }, requirements: [], updates: [] },
          ],
        },
      ],
    ] as const) {
      const answer = await send(`${warehouse}${path}`, body)
      expect([warehouse, path, answer.status, answer.body.error?.type]).toEqual([
        warehouse,
        path,
        status,
        type,
      ])
    }
})

test('updates that only Sluice may make are refused', async () => {
  const [name, branch] = [await tableOnMain(), await newBranch()]
  const { body } = await send(`sluice.${branch}${NAMESPACE}`, { name: newName('t'), schema })
  const { location } = metadataFrom(body.metadata)
  const updates: [object, string][] = [
    [{ action: 'remove-snapshots', 'snapshot-ids': [1] }, 'ForbiddenException'],
    [{ action: 'set-properties', updates: { 'gc.enabled': 'true' } }, 'ForbiddenException'],
    [{ action: 'remove-properties', removals: ['gc.enabled'] }, 'ForbiddenException'],
    [{ action: 'set-location', location }, 'BadRequestException'],
    [{ action: 'set-properties', updates: { 'write.data.path': 's3://elsewhere/x' } }, 'BadRequestException'],
    [{ action: 'upgrade-format-version', 'format-version': 4 }, 'BadRequestException'],
  ]
  for (const [update, type] of updates) {
    const answer = await send(`sluice.${branch}${NAMESPACE}/${name}`, { requirements: [], updates: [update] })
    expect([update, answer.body.error?.type]).toEqual([update, type])
  }
  for (const wanted of [
    { properties: { 'gc.enabled': 'true' } },
    { properties: { 'write.metadata.path': 'file:///etc' } },
    { location: 's3://other/_lake/default/gold/x-01234567' },
    { location: 's3://sluice/_lake/default/gold/other-01234567' },
    { location: 'file:///etc' },
  ])
    expect((await send(`sluice.${branch}${NAMESPACE}`, { name: 'x', schema, ...wanted })).status).toBeOneOf([
      400, 403,
    ])
  expect(await rowsOn(branch, name)).toEqual([{ a: 1 }])
})

test('a new table cannot take the directory of a renamed table', async () => {
  const [name, branch] = [await tableOnMain(), await newBranch()]
  const warehouse = `sluice.${branch}`
  const loaded = await open.fetch(`/iceberg/v1/${warehouse}${NAMESPACE}/${name}`, null)
  const metadata = metadataFrom((parseJson(await loaded.text()) as { metadata: object }).metadata)
  const identifier = (each: string) => ({ namespace: ['default', 'gold'], name: each })
  const rename = { source: identifier(name), destination: identifier(newName('renamed')) }
  expect((await send(`${warehouse}/tables/rename`, rename)).status).toBe(204)

  const { location } = metadata
  const created = await send(`${warehouse}${NAMESPACE}`, { name, schema, location })
  const staged = await send(`${warehouse}${NAMESPACE}`, { name, schema, location, 'stage-create': true })
  const committed = await send(`${warehouse}${NAMESPACE}/${name}`, {
    requirements: [{ type: 'assert-create' }],
    updates: [
      { action: 'assign-uuid', uuid: metadata['table-uuid'] },
      { action: 'upgrade-format-version', 'format-version': 2 },
      { action: 'add-schema', schema },
      { action: 'set-current-schema', 'schema-id': -1 },
      { action: 'add-spec', spec: { fields: [] } },
      { action: 'set-default-spec', 'spec-id': -1 },
      { action: 'add-sort-order', 'sort-order': { 'order-id': 0, fields: [] } },
      { action: 'set-default-sort-order', 'sort-order-id': -1 },
      { action: 'set-location', location },
    ],
  })
  for (const answer of [created, staged, committed])
    expect([answer.status, answer.body.error?.message]).toEqual([400, expect.stringMatching(/another table/)])
  expect((await send(`${warehouse}${NAMESPACE}`, { name, schema })).status).toBe(200)
})

test('partition values in paths may be percent-encoded', async () => {
  const name = await tableOnMain()
  const directories = ['p=a%2Fb', 'p=50%25/q=a b+c', 'p=größe', 'p=%2E%2E%2E', 'p=%']
  for (const [n, directory] of directories.entries()) {
    const { updates } = await plan(name, `select ${n + 10} as a`, { directory: `data/${directory}` })
    // Each plan is computed from main, so only its files are new here.
    const answer = await send(`sluice.${await newBranch()}${NAMESPACE}/${name}`, {
      requirements: [],
      updates,
    })
    expect([directory, answer.status]).toEqual([directory, 200])
    const metadata = metadataFrom(answer.body.metadata)
    expect(await open.rows((await open.reader()).token, metadata)).toEqual([{ a: 1 }, { a: n + 10 }])
  }
})

test('a snapshot that names files outside of its table is refused', async () => {
  const [name, other, branch] = [await tableOnMain(), await tableOnMain(), await newBranch()]
  const table = `sluice.${branch}${NAMESPACE}/${name}`
  const { requirements, updates, objects } = await plan(name)
  const foreign = await plan(other)
  const answer = await open.fetch(`/iceberg/v1/${table}`, null)
  const metadata = metadataFrom((parseJson(await answer.text()) as { metadata: object }).metadata)
  const list = updates.flatMap((update) => (update.action === 'add-snapshot' ? [update.snapshot] : []))[0]
  if (list === undefined) throw new Error('the plan adds no snapshot')
  const manifests = readManifestList(await read(list['manifest-list']))
  const listOf = async (change: object) =>
    put(
      metadata,
      writeManifestList(
        { snapshotId: list['snapshot-id'], sequenceNumber: list['sequence-number'] },
        manifests.map((manifest, n) => (n === 0 ? { ...manifest, ...change } : manifest)),
      ),
    )
  const manifestOf = async (file: object, formatVersion: 2 | 3 = 2) => {
    const spec = { 'spec-id': 0, fields: [] }
    const bytes = writeManifest({ schema: currentSchema(metadata), spec, formatVersion }, [
      {
        status: 'added',
        snapshotId: null,
        sequenceNumber: null,
        fileSequenceNumber: null,
        file: {
          content: 'data',
          location: `${metadata.location}/data/x.parquet`,
          format: 'PARQUET',
          partition: {},
          recordCount: 1,
          sizeBytes: 1,
          columns: new Map(),
          ...file,
        },
      },
    ])
    return listOf({ location: await put(metadata, bytes), sizeBytes: bytes.byteLength })
  }
  const foreignList = foreign.objects.at(-1)?.location ?? ''
  const stored = `${metadata.location}/data/stored.parquet`
  await open.objects.put(keyIn(stored), new Uint8Array(3))
  const lists: [string, RegExp][] = [
    [foreignList, /not a file in the directory/],
    ['s3://other/_lake/default/gold/x-01234567/metadata/x.avro', /not a file in the directory/],
    ['file:///etc/passwd', /not a file in the directory/],
    [`${metadata.location}/metadata/../../../x.avro`, /not a file in the directory/],
    [`${metadata.location}/metadata/missing.avro`, /does not exist/],
    [await put(metadata, new TextEncoder().encode('no avro')), /not an Avro file/],
    [
      await listOf({ location: 's3://sluice/_lake/default/gold/other-01234567/metadata/m.avro' }),
      /not a file/,
    ],
    [await listOf({ location: `${metadata.location}/metadata/missing-m0.avro` }), /does not exist/],
    [await listOf({ sizeBytes: 7 }), /its list says 7/],
    [await listOf({ specId: 9 }), /unknown partition spec 9/],
    [await manifestOf({ location: 's3://sluice/default/pipelines/x.parquet' }), /not a file/],
    [await manifestOf({ location: '/etc/passwd' }), /not a file/],
    [await manifestOf({ location: `${metadata.location}-x/data/x.parquet` }), /not a file/],
    [await manifestOf({ location: `${metadata.location}/uploads/x/00001` }), /not a file/],
    [await manifestOf({ location: `${metadata.location}/commits/x.parquet` }), /not a file/],
    [await manifestOf({ location: `${metadata.location}/data/missing.parquet` }), /does not exist/],
    [await manifestOf({ location: stored, sizeBytes: 4 }), /has 3 bytes, but its manifest says 4/],
    [await manifestOf({ location: `${metadata.location}/data/%252E%252e/x.parquet` }), /not a file/],
    [await manifestOf({ format: 'ORC' }), /only PARQUET is read/],
  ]
  for (const [location, text] of lists) {
    const changed = updates.map(
      (update): TableUpdate =>
        update.action === 'add-snapshot'
          ? { ...update, snapshot: { ...update.snapshot, 'manifest-list': location } }
          : update,
    )
    const answer = await send(table, { requirements, updates: changed })
    expect([location, answer.status]).toEqual([location, 400])
    expect(answer.body.error?.message).toMatch(text)
  }
  const vector = {
    content: 'position-deletes',
    location: `${metadata.location}/data/x.puffin`,
    format: 'PUFFIN',
    referencedDataFile: `${metadata.location}/data/x.parquet`,
    contentOffset: 4,
    contentSizeBytes: 44,
    sizeBytes: 200,
  }
  const vectors: [object, RegExp][] = [
    [{ ...vector, format: 'PARQUET' }, /requires deletion vectors/],
    [{ ...vector, referencedDataFile: undefined }, /is no deletion vector/],
    [{ ...vector, content: 'data' }, /is no deletion vector/],
    [
      { ...vector, referencedDataFile: 's3://sluice/default/x.parquet' },
      /referenced_data_file: .* is not a file/,
    ],
    [{ ...vector, contentOffset: 180 }, /is not in .* 200 bytes/],
    [{ ...vector, contentSizeBytes: 3 }, /is not in/],
    [{ ...vector, format: 'AVRO' }, /only PARQUET is read/],
  ]
  for (const [file, text] of vectors) {
    const location = await manifestOf(file, 3)
    const changed = updates.map(
      (update): TableUpdate =>
        update.action === 'add-snapshot'
          ? {
              ...update,
              snapshot: { ...update.snapshot, 'manifest-list': location, 'first-row-id': 0, 'added-rows': 1 },
            }
          : update,
    )
    const upgrade = { action: 'upgrade-format-version', 'format-version': 3 }
    const answer = await send(table, { requirements, updates: [upgrade, ...changed] })
    expect([file, answer.status]).toEqual([file, 400])
    expect(answer.body.error?.message).toMatch(text)
    const withoutUpgrade = await send(table, { requirements, updates: changed })
    expect(withoutUpgrade.body.error?.message).toMatch(/first-row-id is set/)
  }
  expect(await rowsOn(branch, name)).toEqual([{ a: 1 }])
  expect(await commitsOf(branch)).toEqual([])
  expect(objects.length).toBeGreaterThan(0)
})

test('equality deletes inside a list and renamed fields of a struct are refused', async () => {
  const [name, branch] = [newName('t'), await newBranch()]
  const field = (id: number, of: string, type: object | string) => ({ id, name: of, required: false, type })
  const struct = (...fields: object[]) => ({ type: 'struct', fields })
  const numbers = { type: 'list', 'element-id': 4, element: 'int', 'element-required': false }
  const s = (...fields: object[]) => struct(field(1, 's', struct(...fields)))
  const columns = s(field(2, 'a', 'int'), field(3, 'l', numbers))
  const tables = `sluice.${branch}${NAMESPACE}`
  const { body } = await send(tables, { name, schema: columns })
  const metadata = metadataFrom(body.metadata)
  await open.objects.put(keyIn(`${metadata.location}/data/x.parquet`), new Uint8Array(1))
  const snapshot = async (equalityIds: readonly number[], snapshotId: bigint) => {
    const spec = { 'spec-id': 0, fields: [] }
    const bytes = writeManifest(
      { schema: currentSchema(metadata), spec, formatVersion: 2, content: 'deletes' },
      [
        {
          status: 'added',
          snapshotId: null,
          sequenceNumber: null,
          fileSequenceNumber: null,
          file: {
            content: 'equality-deletes',
            location: `${metadata.location}/data/x.parquet`,
            format: 'PARQUET',
            partition: {},
            recordCount: 1,
            sizeBytes: 1,
            columns: new Map(),
            equalityIds,
          },
        },
      ],
    )
    const manifest: ManifestFile = {
      location: await put(metadata, bytes),
      sizeBytes: bytes.byteLength,
      specId: 0,
      content: 'deletes',
      sequenceNumber: 1,
      minSequenceNumber: 1,
      addedSnapshotId: snapshotId,
      addedFiles: 1,
      existingFiles: 0,
      deletedFiles: 0,
      addedRows: 1,
      existingRows: 0,
      deletedRows: 0,
      partitions: [],
    }
    const list = await put(metadata, writeManifestList({ snapshotId, sequenceNumber: 1 }, [manifest]))
    const added = {
      'snapshot-id': snapshotId,
      'sequence-number': 1,
      'timestamp-ms': Date.now(),
      'manifest-list': list,
      summary: { operation: 'delete' },
      'schema-id': 0,
    }
    return send(`${tables}/${name}`, {
      requirements: [],
      updates: [
        { action: 'add-snapshot', snapshot: added },
        { action: 'set-snapshot-ref', 'ref-name': 'main', type: 'branch', 'snapshot-id': snapshotId },
      ],
    })
  }
  for (const [id, why] of [
    [4, 'column "s.l.element", which is inside a list or a map'],
    [1, 'column "s", which has no primitive type'],
    [9, 'the unknown field 9'],
  ] as const) {
    const { status, body } = await snapshot([id], 7n)
    expect([status, body.error?.type]).toEqual([400, 'BadRequestException'])
    expect(body.error?.message).toEndWith(`compares ${why}`)
  }
  const alter = (next: object) =>
    send(`${tables}/${name}`, {
      requirements: [],
      updates: [
        { action: 'add-schema', schema: next },
        { action: 'set-current-schema', 'schema-id': -1 },
      ],
    })
  expect((await snapshot([2], 8n)).status).toBe(200)
  const renamed = await alter(s(field(2, 'b', 'int'), field(3, 'l', numbers)))
  expect([renamed.status, renamed.body.error?.message]).toEqual([
    400,
    'add-schema: field "s.a" cannot be renamed, because it is inside a struct: add a new field',
  ])
  expect((await alter(s(field(3, 'l', numbers)))).status).toBe(200)
  const reused = await alter(s(field(3, 'l', numbers), field(5, 'A', 'string')))
  expect([reused.status, reused.body.error?.message]).toEqual([
    400,
    'add-schema: the name "s.A" belonged to another field of the struct: use a new name',
  ])
  expect((await alter(s(field(3, 'l', numbers), field(5, 'b', 'string')))).status).toBe(200)
})

test('only credentials of a branch add files to the table', async () => {
  const [name, branch] = [await tableOnMain(), await newBranch()]
  const grant = async (warehouse: string) => {
    const answer = await open.fetch(`/iceberg/v1/${warehouse}${NAMESPACE}/${name}`, null, {
      headers: { 'x-iceberg-access-delegation': 'vended-credentials' },
    })
    const { config } = (await answer.json()) as { config: Record<string, string> }
    const payload = config['s3.session-token']?.split('.')[0] ?? ''
    return JSON.parse(Buffer.from(payload, 'base64url').toString()).write
  }
  expect(await grant('sluice')).toBeNull()
  expect(await grant(`sluice.${branch}`)).toMatch(new RegExp(`^_lake/default/gold/${name}-[0-9a-f]{8}/$`))
})

const sees = (...namespaces: string[]): Visible => ({ pipelines: [], zones: [], namespaces })
const pro = duringTests(() =>
  openTestCatalog(undefined, {
    config: { edition: 'pro', apiKey: 'key-of-the-tests' },
    plugins: { auth: { tokens: { verify: identityOf }, authorize: () => true }, describe: async () => ({}) },
    ownership: {
      resources: {
        table: async () => ({ type: 'namespace', id: 'default', namespace: 'default', owner: 'ada' }),
      } as unknown as Resources,
      enforcement: {
        check: async ({ userId }, _, permission) =>
          userId === 'ada' || (userId === 'eve' && permission === 'read'),
        listVisible: async ({ userId }) => sees(...(userId === 'bob' ? [] : ['default'])),
      },
    },
  }),
)

test('a user needs write permission, and an unseen table does not exist', async () => {
  const [name, branch] = [await tableOnMain(pro), await newBranch(pro)]
  const tables = `sluice.${branch}${NAMESPACE}`
  const commit = (token: string, table = name) =>
    send(`${tables}/${table}`, { requirements: [], updates: [] }, { lake: pro, token })
  const create = (token: string) => send(tables, { name: newName('t'), schema }, { lake: pro, token })
  expect((await commit('ada')).status).toBe(200)
  expect((await create('ada')).status).toBe(200)
  expect((await commit('eve')).body.error?.type).toBe('ForbiddenException')
  expect((await create('eve')).body.error?.type).toBe('ForbiddenException')
  const none = await commit('bob', 'none')
  expect([none.status, none.body.error?.type]).toEqual([404, 'NoSuchTableException'])
  expect((await commit('bob')).body.error?.message).toBe(none.body.error?.message.replace('none', name) ?? '')
  expect((await create('bob')).body.error?.type).toBe('NoSuchNamespaceException')
})

async function read(location: string): Promise<Uint8Array> {
  const bytes = await bytesOf(open.objects, keyIn(location))
  if (bytes === null) throw new Error(`${location} is missing`)
  return bytes
}

/** Stores a file in the table's directory, as an engine with write credentials could. */
async function put({ location }: TableMetadata, bytes: Uint8Array): Promise<string> {
  const path = `${location}/metadata/${newName('forged')}.avro`
  await open.objects.put(keyIn(path), bytes)
  return path
}

beforeAll(() => tableOnMain())
