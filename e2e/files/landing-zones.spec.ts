// Specification: Landing zones (zones and files); Limits.
import { expect, test } from '@playwright/test'
import {
  csv,
  expectError,
  fresh,
  getJson,
  instant,
  MAX_UPLOAD_BYTES,
  newNamespace,
  newZone,
  pipelineWith,
  publish,
  TOO_LARGE,
  uuid,
  writeFile,
} from '../kit/resources.ts'
import { runToEnd, runToSuccess } from '../kit/runs.ts'

const path = '/api/v1/landing-zones'
const nobody = `${path}/default/nobody-here`
const noFile = '00000000-0000-7000-8000-000000000000'
/** A multipart form that Playwright cannot write. */
const rawForm = (disposition: string) => ({
  headers: { 'content-type': 'multipart/form-data; boundary=line' },
  data: Buffer.from(
    `--line\r\nContent-Disposition: form-data; ${disposition}\r\nContent-Type: text/csv\r\n\r\na,b\r\n--line--\r\n`,
  ),
})

test('a zone is created, found, changed and deleted @zones.create @zones.get @zones.update', async ({
  request,
}) => {
  const name = fresh('life')
  const created = await request.post(path, { data: { namespace: 'default', name, description: 'First' } })
  expect(created.status()).toBe(201)
  const zone = await created.json()
  expect(zone).toEqual({
    id: uuid,
    namespace: 'default',
    name,
    description: 'First',
    created_at: instant,
  })
  const url = `${path}/default/${name}`
  const found = await request.get(url)
  expect([found.status(), await found.json()]).toEqual([
    200,
    { ...zone, owner: null, expected_schema: null, file_count: 0, total_bytes: 0, updated_at: instant },
  ])
  const change = { description: 'Second', owner: 'ann', expected_schema: 'id:INTEGER,price:DECIMAL(14,2)' }
  const changed = await request.put(url, { data: change })
  expect([changed.status(), await changed.json()]).toEqual([
    200,
    { ...zone, ...change, file_count: 0, total_bytes: 0, updated_at: instant },
  ])
  expect(await (await request.put(url, { data: {} })).json()).toMatchObject(change)
  const cleared = await request.put(url, { data: { owner: null, expected_schema: '' } })
  expect(await cleared.json()).toMatchObject({ owner: null, expected_schema: null, description: 'Second' })

  const deleted = await request.delete(url)
  expect([deleted.status(), await deleted.text()]).toEqual([204, ''])
  await expectError(await request.get(url), 404)
  await expectError(await request.delete(url), 404)
})

test('zones are listed with their counts, all or by namespace @zones.list', async ({ request }) => {
  const namespace = await newNamespace(request)
  const [one, other] = [await newZone(request, namespace), await newZone(request, namespace)]
  await one.upload('flights.csv')
  const { zones, total } = await getJson(request, path, { namespace })
  expect(total).toBe(2)
  expect(zones).toMatchObject([
    { name: one.name, file_count: 1, total_bytes: 8 },
    { name: other.name, file_count: 0, total_bytes: 0 },
  ])
  const everywhere = await getJson(request, path)
  expect(everywhere.zones).toContainEqual(zones[0])
  await expectError(await request.get(path, { params: { namespace: 'Upper' } }), 400, /^namespace: /)
})

test('a bad zone field is 400, a taken name 409 @name.zone @zones.create.400 @zones.create.409', async ({
  request,
}) => {
  const fine = { namespace: 'default', name: 'refused' }
  for (const [field, value] of [
    ['namespace', undefined],
    ['namespace', 'Upper'],
    ['namespace', 'no-such-namespace'],
    ['name', undefined],
    ['name', ''],
    ['name', 'under_score'],
    ['name', 'Upper'],
    ['name', 'a/b'],
    ['name', 'a'.repeat(129)],
    ['name', 7],
    ['description', 7],
    ['description', 'nul \u0000'],
  ] as const)
    await expectError(
      await request.post(path, { data: { ...fine, [field]: value } }),
      400,
      new RegExp(`^${field}: `),
    )
  const { namespace, name } = await newZone(request)
  await expectError(await request.post(path, { data: { namespace, name } }), 409)
})

test('a zone update with a bad field is 400 naming it @zones.update.400', async ({ request }) => {
  const { url } = await newZone(request)
  for (const [field, value] of [
    ['description', 7],
    ['owner', {}],
    ['expected_schema', 7],
    ['expected_schema', 'id'],
    ['expected_schema', 'id:'],
    ['expected_schema', ':INTEGER'],
    ['expected_schema', 'id:INTEGER,'],
    ['expected_schema', 'id:INTEGER,id:DATE'],
    ['expected_schema', 'id:INTEGER:x'],
    ['expected_schema', 'id:(2)'],
    ['expected_schema', ' '],
  ] as const)
    await expectError(await request.put(url, { data: { [field]: value } }), 400, new RegExp(`^${field}: `))
})

test('the schema of a zone shows detected columns, rows and differences @zones.schema @zones.schema.404', async ({
  request,
}) => {
  const { url, name, upload } = await newZone(request)
  await request.put(url, { data: { expected_schema: '"flight no":BIGINT,day:DATE,delay:INTEGER' } })
  const none = { columns: [], rows: [], source: 'none', files: [], total_files: 0, function: null }
  expect(await getJson(request, `${url}/schema`)).toMatchObject({ ...none, differences: [] })
  const file = csv('flights.csv', 'flight no,delay,late\n12,5,true\n13,-2,false\n')
  expect((await request.post(`${url}/samples`, { multipart: { file } })).status()).toBe(201)
  const found = await getJson(request, `${url}/schema`)
  expect(found).toEqual({
    columns: [
      { name: 'flight no', type: 'BIGINT' },
      { name: 'delay', type: 'BIGINT' },
      { name: 'late', type: 'BOOLEAN' },
    ],
    rows: [
      [12, 5, true],
      [13, -2, false],
    ],
    source: 'samples',
    files: [{ id: null, filename: 'flights.csv', size_bytes: 43 }],
    total_files: 1,
    is_partial: false,
    function: 'read_csv_auto',
    detected_schema: '"flight no":BIGINT,delay:BIGINT,late:BOOLEAN',
    expected: [
      { name: 'flight no', type: 'BIGINT' },
      { name: 'day', type: 'DATE' },
      { name: 'delay', type: 'INTEGER' },
    ],
    differences: [
      { column: 'day', kind: 'missing', expected_type: 'DATE', detected_type: null },
      { column: 'delay', kind: 'other_type', expected_type: 'INTEGER', detected_type: 'BIGINT' },
      { column: 'late', kind: 'unexpected', expected_type: null, detected_type: 'BOOLEAN' },
    ],
  })
  await request.put(url, { data: { expected_schema: found.detected_schema } })
  expect(await getJson(request, `${url}/schema`)).toMatchObject({ differences: [] })
  const { id } = await upload('other.json', '[{"a": {"b": [1]}}]')
  expect(await getJson(request, `${url}/schema`)).toMatchObject({
    source: 'files',
    files: [{ id }],
    function: 'read_json_auto',
    columns: [{ name: 'a', type: 'STRUCT(b BIGINT[])' }],
    rows: [[{ b: [1] }]],
  })
  // A pipeline on the zone has the same columns.
  const code = `select * from read_json_auto('{{ landing_zone("${name}") }}')`
  const { url: pipeline } = await pipelineWith(request, code)
  const preview = await request.post(`${pipeline}/preview`)
  expect((await preview.json()).columns).toEqual([{ name: 'a', type: 'STRUCT(b BIGINT[])' }])
  await expectError(await request.get(`${nobody}/schema`), 404)
  await expectError(await request.get(`${url}/schema`, { params: { file_id: noFile } }), 404)
})

test('files that cannot be read together are 400 with the reason @zones.schema.400', async ({ request }) => {
  const { url, upload } = await newZone(request)
  const good = await upload('good.parquet', 'no parquet')
  await expectError(
    await request.get(`${url}/schema`),
    400,
    /^Invalid Input Error: File 'landing\/.*good\.parquet/,
  )
  const other = await upload('one.csv', 'a,b\n1,2\n')
  expect(await getJson(request, `${url}/schema`, { file_id: other.id })).toMatchObject({ rows: [[1, 2]] })
  await expectError(
    await request.get(`${url}/schema`, { params: { file_id: good.id } }),
    400,
    /good\.parquet/,
  )
  await expectError(await request.get(`${url}/schema`, { params: { file_id: 'x' } }), 400, /^file_id: /)
})

test('a success archives only the files that it opened @zones.archive-read', async ({ request }) => {
  const { url, name, upload } = await newZone(request)
  const archiving = 'merge_strategy: append_only\narchive_landing_zones: true\n'
  const csv = await upload('a.csv', 'id\n1\n')
  const json = await upload('b.json', '{"id": 2}\n')
  const filtered = await pipelineWith(
    request,
    `select id from read_csv('{{ landing_zone("${name}") | replace("*", "*.csv") }}')`,
  )
  await writeFile(request, `${filtered.prefix}config.yaml`, archiving)
  await publish(request, filtered)
  await runToSuccess(request, filtered)
  expect(await getJson(request, `${url}/files`)).toMatchObject({ files: [{ id: json.id }], total: 1 })
  expect(await getJson(request, `${url}/reads`, { file_id: csv.id })).toMatchObject({
    reads: [{ file_status: 'archived' }],
  })
  const selected = await pipelineWith(
    request,
    `select id from read_json('{{ landing_zone("${name}", pattern="*.json") }}')`,
  )
  await upload('c.csv', 'id\n3\n')
  await writeFile(request, `${selected.prefix}config.yaml`, archiving)
  await publish(request, selected)
  await runToSuccess(request, selected)
  expect(await getJson(request, `${url}/files`)).toMatchObject({
    files: [{ filename: expect.stringContaining('_c.csv') }],
    total: 1,
  })
})

test('two pipelines never archive the same files @zones.archive-one', async ({ request }) => {
  const { name, namespace, upload } = await newZone(request)
  const reading = async (call: string) => {
    const pipeline = await pipelineWith(request, `select * from read_csv('{{ ${call} }}')`, { namespace })
    await writeFile(request, `${pipeline.prefix}config.yaml`, 'archive_landing_zones: true\n')
    return pipeline
  }
  const [first, second] = [
    await reading(`landing_zone("${name}")`),
    await reading(`landing_zone("${name}", pattern="*.csv")`),
  ]
  await publish(request, first)
  const refused = await request.post(`${second.url}/publish`)
  const reason = `landing zone ${namespace}.${name} is archived by pipeline ${namespace}.bronze.${first.name}`
  expect([refused.status(), (await refused.json()).error]).toMatchObject([
    409,
    { code: 'FAILED_PRECONDITION', message: expect.stringContaining(reason) },
  ])
  await upload('a.csv', 'id\n1\n')
  const data = { namespace, layer: 'bronze', pipeline: second.name }
  expect((await request.post('/api/v1/runs', { data })).status()).toBe(409)
  expect(await runToEnd(request, first)).toMatchObject({ error: null, rows_written: 1 })
  // Only a run knows a computed name.
  const computed = await reading(`landing_zone("${name.slice(0, 1)}" ~ "${name.slice(1)}")`)
  await publish(request, computed)
  const shared = expect.stringContaining(`landing zone ${namespace}.${name} is archived by another pipeline`)
  expect(await runToEnd(request, computed)).toMatchObject({ status: 'failed', error: shared })
  // A path that a filter changes is taken for other files.
  const filtered = await reading(`landing_zone("${name}") | replace("*", "*.tsv")`)
  await publish(request, filtered)
  const empty = { status: 'failed', error: expect.stringContaining('has no files') }
  expect(await runToEnd(request, filtered)).toMatchObject(empty)
  await writeFile(request, `${first.prefix}config.yaml`, '')
  await publish(request, first)
  await upload('b.csv', 'id\n1\n')
  expect(await runToEnd(request, computed)).toMatchObject({ error: null })
  expect((await request.post(`${second.url}/publish`)).status()).toBe(409)
  await writeFile(request, `${computed.prefix}config.yaml`, '')
  await publish(request, computed)
  await writeFile(request, `${first.prefix}config.yaml`, 'archive_landing_zones: true\n')
  await writeFile(
    request,
    `${first.prefix}pipeline.sql`,
    `select * from read_csv('{{ landing_zone("${name}", pattern="*.tsv") }}')`,
  )
  await publish(request, first)
  await publish(request, second)
})

test('a landing file can be downloaded @zones.content @zones.content.404', async ({ request }) => {
  const { url, upload } = await newZone(request)
  const file = await upload("it's <b>.html", '<script>1</script>')
  const response = await request.get(`${url}/files/${file.id}/content`)
  expect(await response.text()).toBe('<script>1</script>')
  expect(response.headers()).toMatchObject({
    'content-type': 'application/octet-stream',
    'content-disposition': "attachment; filename*=UTF-8''it%27s%20%3Cb%3E.html",
    'x-content-type-options': 'nosniff',
  })
  await expectError(await request.get(`${url}/files/${noFile}/content`), 404)
})

for (const [kind, reader, good, bad] of [
  ['parquet', 'read_parquet', null, 'PAR1 and then nothing'],
  ['json', 'read_json_auto', '{"id": 1}', '{"id": 1'],
  ['csv.gz', 'read_csv_auto', null, 'no gzip'],
  ['csv', 'read_csv_auto', 'id\n1\n', Buffer.from('id\n\xff\xfe\x00', 'latin1')],
] as const)
  test(`a broken file is named and set aside: ${kind} @zones.quarantine @zones.restore`, async ({
    request,
  }) => {
    const { name, url, upload } = await newZone(request)
    const sql = `select count(*) as n from ${reader}('{{ landing_zone("${name}") }}')`
    const pipeline = await pipelineWith(request, sql)
    await writeFile(request, `${pipeline.prefix}config.yaml`, 'archive_landing_zones: true\n')
    await publish(request, pipeline)
    if (good !== null) await upload(`good.${kind}`, good)
    const broken = await upload(`broken.${kind}`, bad)
    expect((await runToEnd(request, pipeline)).error).toContain(broken.filename)
    const quarantine = () => request.post(`${url}/files/${broken.id}/quarantine`)
    expect(await (await quarantine()).json()).toEqual({ ...broken, status: 'quarantined' })
    expect((await quarantine()).status()).toBe(200)
    expect(await getJson(request, `${url}/files/${broken.id}`)).toMatchObject({ status: 'quarantined' })
    expect((await request.get(`${url}/files/${broken.id}/content`)).status()).toBe(200)
    expect(await getJson(request, url)).toMatchObject({ file_count: good === null ? 0 : 1 })
    const { error } = await runToEnd(request, pipeline)
    if (good === null) expect(error).toContain('has no files')
    else expect(error).toBeNull()
    expect(await getJson(request, `${url}/files`)).toMatchObject({
      files: [{ id: broken.id, status: 'quarantined' }],
      total: 1,
    })
    expect((await request.delete(`${url}/files/${broken.id}/quarantine`)).status()).toBe(204)
    expect((await runToEnd(request, pipeline)).error).toContain(broken.filename)
    expect((await request.post(`${url}/files/${noFile}/quarantine`)).status()).toBe(404)
  })

test('a file that is read as another table fails the run @zones.foreign', async ({ request }) => {
  const { name, upload } = await newZone(request)
  await upload('good.csv', 'id,name,age\n1,Ann,30\n')
  const pipeline = await pipelineWith(request, `select * from read_csv('{{ landing_zone("${name}") }}')`)
  await writeFile(
    request,
    `${pipeline.prefix}config.yaml`,
    'merge_strategy: append_only\narchive_landing_zones: true\n',
  )
  await publish(request, pipeline)
  await runToSuccess(request, pipeline)
  await upload('headless.csv', 'x;y;z\n2;Bob;31\n')
  const { error } = await runToEnd(request, pipeline)
  expect(error).toMatch(
    /no column of table .* got a value: the table has "id", "name", "age", the result from .*headless.csv has "x", "y", "z"/,
  )
})

test('reads show which run took which file @zones.reads @zones.reads.404', async ({ request }) => {
  const { url, name, upload } = await newZone(request)
  const file = await upload('visits.csv')
  const pipeline = await pipelineWith(request, `select * from read_csv('{{ landing_zone("${name}") }}')`)
  await writeFile(request, `${pipeline.prefix}config.yaml`, 'archive_landing_zones: true')
  await publish(request, pipeline)
  const { id } = await runToSuccess(request, pipeline)
  const read = {
    file_id: file.id,
    filename: file.filename,
    size_bytes: file.size_bytes,
    file_status: 'archived',
    archived_by_run: id,
    archived_at: instant,
    run_id: id,
    namespace: 'default',
    layer: pipeline.layer,
    pipeline: pipeline.name,
    status: 'success',
    read_at: instant,
  }
  expect(await getJson(request, `${url}/reads`)).toEqual({ reads: [read], total: 1 })
  expect(await getJson(request, `${url}/reads`, { file_id: noFile })).toEqual({ reads: [], total: 0 })
  expect((await request.delete(`${url}/files/${file.id}`)).status()).toBe(204)
  expect(await getJson(request, `${url}/reads`, { file_id: file.id })).toMatchObject({
    reads: [{ run_id: id, filename: null, size_bytes: null, file_status: 'deleted' }],
  })
  await expectError(await request.get(`${nobody}/reads`), 404)
})

test('the lifecycle of a zone is read and changed field by field @zones.lifecycle @zones.lifecycle.put', async ({
  request,
}) => {
  const zone = await newZone(request)
  const url = `${zone.url}/lifecycle`
  const settings = async () => {
    const response = await request.get(url)
    return [response.status(), await response.json()]
  }
  expect(await settings()).toEqual([200, { processed_max_age_days: 30, auto_purge: false }])
  for (const [change, expected] of [
    [{ auto_purge: true }, { processed_max_age_days: 30, auto_purge: true }],
    [{ processed_max_age_days: 7 }, { processed_max_age_days: 7, auto_purge: true }],
    [{}, { processed_max_age_days: 7, auto_purge: true }],
    [
      { processed_max_age_days: 0, auto_purge: false },
      { processed_max_age_days: 0, auto_purge: false },
    ],
  ] as const) {
    const changed = await request.put(url, { data: change })
    expect([changed.status(), await changed.text()]).toEqual([204, ''])
    expect(await settings()).toEqual([200, expected])
  }
})

test('an invalid lifecycle is 400 naming the field and changes nothing @zones.lifecycle.put.400', async ({
  request,
}) => {
  const zone = await newZone(request)
  const url = `${zone.url}/lifecycle`
  for (const [field, value] of [
    ['processed_max_age_days', -1],
    ['processed_max_age_days', 1.5],
    ['processed_max_age_days', '7'],
    ['processed_max_age_days', null],
    ['processed_max_age_days', 36_501],
    ['processed_max_age_days', 2 ** 31],
    ['processed_max_age_days', 1e300],
    ['auto_purge', 'true'],
    ['auto_purge', 1],
    ['auto_purge', null],
  ] as const) {
    const other = field === 'auto_purge' ? { processed_max_age_days: 1 } : { auto_purge: true }
    const refused = await request.put(url, { data: { ...other, [field]: value } })
    await expectError(refused, 400, new RegExp(`^${field}: `))
  }
  const unchanged = await getJson(request, url)
  expect(unchanged).toEqual({ processed_max_age_days: 30, auto_purge: false })
})

test('an unknown or invalid address of a zone or file is 404', {
  tag: [
    '@zones.get.404',
    '@zones.update.404',
    '@zones.delete.404',
    '@zones.files.404',
    '@zones.upload.404',
    '@zones.file.404',
    '@zones.file.delete.404',
    '@zones.lifecycle.404',
    '@zones.lifecycle.put.404',
  ],
}, async ({ request }) => {
  for (const url of [nobody, `${path}/default/Upper`, `${path}/Default/a`]) {
    await expectError(await request.get(url), 404)
    await expectError(await request.put(url, { data: {} }), 404)
    await expectError(await request.delete(url), 404)
    await expectError(await request.get(`${url}/lifecycle`), 404)
    await expectError(await request.put(`${url}/lifecycle`, { data: {} }), 404)
    await expectError(await request.get(`${url}/files`), 404)
    await expectError(await request.post(`${url}/files`, { multipart: { file: csv('flights.csv') } }), 404)
    await expectError(await request.get(`${url}/files/${noFile}`), 404)
    await expectError(await request.delete(`${url}/files/${noFile}`), 404)
  }
  const { url } = await newZone(request)
  for (const id of [noFile, 'not-an-id']) {
    await expectError(await request.get(`${url}/files/${id}`), 404)
    await expectError(await request.delete(`${url}/files/${id}`), 404)
  }
})

test('a landing file is uploaded, found, listed and deleted @zones.upload @zones.file @zones.file.delete', async ({
  request,
}) => {
  const { url, prefix } = await newZone(request)
  const { id: zoneId } = await getJson(request, url)
  const uploaded = await request.post(`${url}/files`, { multipart: { file: csv('flights.csv') } })
  expect(uploaded.status()).toBe(201)
  const file = await uploaded.json()
  expect(file).toEqual({
    id: uuid,
    zone_id: zoneId,
    filename: expect.stringMatching(/^\d{8}_\d{6}_flights\.csv$/),
    s3_path: `${prefix}${file.filename}`,
    size_bytes: 8,
    content_type: 'text/csv',
    status: 'active',
    uploaded_at: instant,
  })
  const [, day = '', time = ''] = /^(\d{8})_(\d{6})/.exec(file.filename) ?? []
  const named = `${day.replace(/(....)(..)(..)/, '$1-$2-$3')}T${time.replace(/(..)(..)(..)/, '$1:$2:$3')}Z`
  expect(Math.abs(Date.parse(named) - Date.parse(file.uploaded_at))).toBeLessThan(60_000)

  const found = await request.get(`${url}/files/${file.id}`)
  expect([found.status(), await found.json()]).toEqual([200, file])
  expect(await getJson(request, `${url}/files`)).toEqual({ files: [file], total: 1 })
  expect(await getJson(request, url)).toMatchObject({ file_count: 1, total_bytes: 8 })
  expect(await getJson(request, `/api/v1/files/${file.s3_path}`)).toMatchObject({
    content: 'a,b\n1,2\n',
  })

  const deleted = await request.delete(`${url}/files/${file.id}`)
  expect([deleted.status(), await deleted.text()]).toEqual([204, ''])
  await expectError(await request.get(`${url}/files/${file.id}`), 404)
  await expectError(await request.get(`/api/v1/files/${file.s3_path}`), 404)
  expect(await getJson(request, url)).toMatchObject({ file_count: 0, total_bytes: 0 })
})

test('landing files are listed newest first @zones.files', async ({ request }) => {
  const { url, upload } = await newZone(request)
  for (const name of ['a.csv', 'b.csv', 'c.csv']) await upload(name)
  const { files, total } = await getJson(request, `${url}/files`)
  expect(total).toBe(3)
  expect(files.map((file: { filename: string }) => file.filename.slice(16))).toEqual([
    'c.csv',
    'b.csv',
    'a.csv',
  ])
})

test('an upload without a valid file name is 400 and stores nothing @zones.upload.400', async ({
  request,
}) => {
  const { url, prefix } = await newZone(request)
  const post = (multipart: { [field: string]: string | ReturnType<typeof csv> }) =>
    request.post(`${url}/files`, { multipart })
  await expectError(await post({ other: 'x' }), 400, /^unknown form field `other`/)
  await expectError(await post({ file: 'text' }), 400, /^file: /)
  await expectError(await post({ file: csv('folder/') }), 400, /^file: /)
  await expectError(await post({ file: csv(`${'x'.repeat(600)}.csv`) }), 400, /^file: /)
  for (const disposition of ['name="file"; filename=""', 'name="file"; filename=""; filename*=UTF-8\'\''])
    await expectError(await request.post(`${url}/files`, rawForm(disposition)), 400, /^file: /)
  await expectError(await request.post(`${url}/files`, { data: { file: 'x' } }), 400)
  await expectError(await request.post(`${url}/files`), 400)
  expect(await getJson(request, '/api/v1/files', { prefix })).toEqual({
    files: [],
    total: 0,
  })
})

test('a landing upload has at most 32 MB @runtime @zones.upload.413 @limit.upload.landing', async ({
  request,
}) => {
  const { url, prefix } = await newZone(request)
  const send = (name: string, bytes: number) =>
    request.post(`${url}/files`, { multipart: { file: csv(name, Buffer.alloc(bytes)) } })
  const full = await send('full.csv', MAX_UPLOAD_BYTES)
  expect([full.status(), (await full.json()).size_bytes]).toEqual([201, MAX_UPLOAD_BYTES])
  await expectError(await send('over.csv', MAX_UPLOAD_BYTES + 1), 413, TOO_LARGE)
  await expectError(await send('far-over.csv', MAX_UPLOAD_BYTES + 1_000_000), 413, TOO_LARGE)
  expect((await getJson(request, `${url}/files`)).total).toBe(1)
  expect((await getJson(request, '/api/v1/files', { prefix })).total).toBe(1)
})

test('repeated uploads with one Idempotency-Key store one file', async ({ request }) => {
  const { url } = await newZone(request)
  const headers = { 'idempotency-key': fresh('landing') }
  const send = (file: ReturnType<typeof csv>) =>
    request.post(`${url}/files`, { headers, multipart: { file } })
  const answers = await Promise.all(Array.from({ length: 6 }, () => send(csv('flights.csv'))))
  expect(answers.map((answer) => answer.status())).toEqual(Array(6).fill(201))
  const files = await Promise.all(answers.map((answer) => answer.json()))
  expect(files).toEqual(Array(6).fill(files[0]))
  await expectError(await send(csv('flights.csv', 'other')), 409, /^Idempotency-Key: /)
  await expectError(await send(csv('other.csv')), 409, /^Idempotency-Key: /)
  expect(await getJson(request, `${url}/files`)).toEqual({ files: [files[0]], total: 1 })
})

test.describe('landing zone samples', () => {
  test('samples are uploaded, listed, replaced and deleted by name @zones.samples @zones.sample.upload @zones.sample.delete', async ({
    request,
  }) => {
    const zone = await newZone(request)
    const url = `${zone.url}/samples`
    const send = (file: ReturnType<typeof csv>) => request.post(url, { multipart: { file } })
    expect(await getJson(request, url)).toEqual({ files: [], total: 0 })
    const first = await send(csv('día 1.csv'))
    const at = `${zone.prefix}_samples/día 1.csv`
    expect([first.status(), await first.json()]).toEqual([
      201,
      { path: at, filename: 'día 1.csv', size: 8, status: 'uploaded' },
    ])
    expect((await send(csv('notes.md', 'more'))).status()).toBe(201)
    expect((await send(csv('C:\\data\\día 1.csv', 'a\n1\n2\n3\n'))).status()).toBe(201)
    expect(await getJson(request, url)).toEqual({
      files: [
        { path: at, size: 8, modified: instant, type: '' },
        { path: `${zone.prefix}_samples/notes.md`, size: 4, modified: instant, type: 'doc' },
      ],
      total: 2,
    })
    expect(await getJson(request, `/api/v1/files/${at}`)).toMatchObject({ content: 'a\n1\n2\n3\n' })
    // Samples do not count as files of the zone.
    expect(await getJson(request, `${zone.url}/files`)).toEqual({ files: [], total: 0 })

    const one = `${url}/${encodeURIComponent('día 1.csv')}`
    const deleted = await request.delete(one)
    expect([deleted.status(), await deleted.text()]).toEqual([204, ''])
    await expectError(await request.delete(one), 404)
    expect((await getJson(request, url)).total).toBe(1)
    expect((await send(csv('día 1.csv'))).status()).toBe(201)
  })

  test('samples of an unknown zone are 404, invalid names or forms 400', {
    tag: [
      '@zones.samples.404',
      '@zones.sample.upload.400',
      '@zones.sample.upload.404',
      '@zones.sample.delete.404',
    ],
  }, async ({ request }) => {
    const zone = await newZone(request)
    const url = `${zone.url}/samples`
    for (const nowhere of [nobody, `${path}/default/Upper`]) {
      await expectError(await request.get(`${nowhere}/samples`), 404)
      await expectError(
        await request.post(`${nowhere}/samples`, { multipart: { file: csv('flights.csv') } }),
        404,
      )
      await expectError(await request.delete(`${nowhere}/samples/a.csv`), 404)
    }
    for (const name of [
      '..',
      'a/',
      '%2e%2e',
      '..%2fa.csv',
      '%252e%252e%252fa.csv',
      `${'x'.repeat(1_100)}.csv`,
    ])
      await expectError(await request.post(url, { multipart: { file: csv(name) } }), 400, /^(file|path): /)
    await expectError(
      await request.post(url, { multipart: { other: 'x' } }),
      400,
      /^unknown form field `other`/,
    )
    await expectError(await request.post(url), 400)
    for (const name of ['%252e%252e', 'a%2Fb.csv', '..%2F..%2Fa.csv', 'a%5Cb.csv'])
      await expectError(await request.delete(`${url}/${name}`), 400, /^filename: /)
    expect(await getJson(request, url)).toEqual({ files: [], total: 0 })
  })

  test('a sample may have 32 MB but not one byte more @zones.sample.upload.413 @limit.upload.samples', async ({
    request,
  }) => {
    const zone = await newZone(request)
    const url = `${zone.url}/samples`
    const send = (name: string, bytes: number) =>
      request.post(url, { multipart: { file: csv(name, Buffer.alloc(bytes)) } })
    expect(await (await send('full.csv', MAX_UPLOAD_BYTES)).json()).toMatchObject({ size: MAX_UPLOAD_BYTES })
    await expectError(await send('over.csv', MAX_UPLOAD_BYTES + 1), 413, TOO_LARGE)
    expect(await getJson(request, url)).toMatchObject({ total: 1 })
  })
})

test('an upload whose name is an encoded path is 400', async ({ request }) => {
  const { url } = await newZone(request)
  for (const name of ['..%2f..%2fetc', 'a%252fb.csv', 'a%5cb.csv', 'a%0d%0ab.csv', 'a%00.csv'])
    await expectError(await request.post(`${url}/files`, { multipart: { file: csv(name) } }), 400, /^file: /)
  expect((await request.post(`${url}/files`, { multipart: { file: csv('50%25 é.csv') } })).status()).toBe(201)
})

test('deleting a zone removes its files and nothing beside them @zones.delete', async ({ request }) => {
  const { url, prefix, namespace, name, upload, uploadSample } = await newZone(request)
  await upload('flights.csv')
  await uploadSample('s.csv')
  await request.put(`/api/v1/files/${prefix}_processed/run/p.csv`, { data: { content: 'x' } })
  const neighbour = `${namespace}/landing/${name}-2/n.csv`
  await request.put(`/api/v1/files/${neighbour}`, { data: { content: 'x' } })
  expect((await request.delete(url)).status()).toBe(204)
  const remaining = await request.get('/api/v1/files', { params: { prefix: `${namespace}/landing/${name}` } })
  expect(await remaining.json()).toMatchObject({ files: [{ path: neighbour }], total: 1 })
  expect((await request.post(path, { data: { namespace, name } })).status()).toBe(201)
  expect(await getJson(request, url)).toMatchObject({ file_count: 0 })
})
