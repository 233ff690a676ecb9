import { expect, test } from 'bun:test'
import type { JsonRows } from '../../lake/engine/arrow-json.ts'
import { systemClock } from '../core/clock.ts'
import { newId } from '../core/ids.ts'
import { limits } from '../core/limits.ts'
import { formWith } from '../http/test-form.ts'
import { useParts } from '../pipelines/test-parts.ts'
import { type DetectionDeps, makeDetection } from './detection.ts'
import { makeLandingZoneService } from './service.ts'

const parts = useParts()
const signal = new AbortController().signal
const COLUMNS = [
  { name: 'code', type: 'VARCHAR' },
  { name: 'flight no', type: 'BIGINT' },
]

let zonesCreated = 0
/** A zone, and a detection whose preview answers these columns and records its calls. */
async function zone(answer: () => Promise<JsonRows> = async () => ({ columns: COLUMNS, chunks: [] })) {
  const service = makeLandingZoneService({ ...parts.deps, clock: systemClock })
  const ref = { namespace: 'default', name: `detected-${zonesCreated++}` }
  await service.create(ref)
  const calls: Parameters<DetectionDeps['previewZone']>[0][] = []
  const detection = makeDetection({
    ...parts.deps,
    previewZone: (preview) => {
      calls.push(preview)
      return answer()
    },
  })
  return {
    ref,
    service,
    calls,
    upload: (name: string) => service.upload(ref, formWith(new File(['code\nBOS\n'], name))),
    sample: (name: string) => service.samples.upload(ref, formWith(new File(['code\nBOS\n'], name))),
    schema: (fileId?: string) => detection.schema(ref, fileId, signal),
    filesRead: () => calls.at(-1)?.files.map(({ filename }) => filename),
  }
}

test('active files are read by the starter query, newest first', async () => {
  const { ref, upload, sample, schema, calls } = await zone()
  await sample('sample.csv')
  const first = await upload('a.csv')
  const second = await upload('a.csv')
  expect(await schema()).toEqual({
    columns: COLUMNS,
    chunks: [],
    source: 'files',
    files: [second, first].map(({ id, filename }) => ({ id, filename, size_bytes: 9 })),
    total_files: 2,
    is_partial: false,
    function: 'read_csv_auto',
    detected_schema: 'code:VARCHAR,"flight no":BIGINT',
    expected: null,
    differences: [],
  })
  expect(calls).toMatchObject([
    {
      namespace: 'default',
      zone: ref.name,
      sql: `select *\nfrom read_csv_auto('{{ landing_zone("${ref.name}") }}')\nlimit 20`,
      rowsMax: 20,
    },
  ])
  expect(calls[0]?.files[0]).toMatchObject({ id: second.id, object: { path: second.s3_path, sizeBytes: 9n } })
})

test('samples are read only without active files', async () => {
  const { upload, sample, schema, filesRead } = await zone()
  await sample('sample.json')
  expect(await schema()).toMatchObject({
    source: 'samples',
    files: [{ id: null, filename: 'sample.json', size_bytes: 9 }],
    total_files: 1,
    function: 'read_json_auto',
  })
  const { filename } = await upload('a.csv')
  expect(await schema()).toMatchObject({ source: 'files', function: 'read_csv_auto' })
  expect(filesRead()).toEqual([filename])
})

test('an empty zone answers without a runner', async () => {
  const { ref, service, schema, calls } = await zone()
  await service.update(ref, { expected_schema: 'code:VARCHAR' })
  expect(await schema()).toEqual({
    columns: [],
    chunks: [],
    source: 'none',
    files: [],
    total_files: 0,
    is_partial: false,
    function: null,
    detected_schema: '',
    expected: [{ name: 'code', type: 'VARCHAR' }],
    differences: [],
  })
  expect(calls).toEqual([])
})

test('number, size and format limit the files that are read', async () => {
  const { upload, schema, filesRead } = await zone()
  await upload('old.csv')
  for (let n = 0; n < 12; n++) await upload(`${n}.parquet`)
  const newest = await upload('newest.csv')
  expect(await schema()).toMatchObject({ total_files: 14, is_partial: true })
  expect(filesRead()).toEqual([newest.filename])
  const large = await upload('large.csv')
  await parts.sql`update landing_file set size_bytes = ${2 * limits.uploadBytes} where id = ${large.id}`
  await schema()
  expect(filesRead()).toEqual([large.filename])
})

test('one file of the zone can be chosen, also an archived file', async () => {
  const { upload, schema, filesRead } = await zone()
  const old = await upload('old.csv')
  await upload('new.csv')
  await parts.sql`update landing_file set archived_by_run = ${newId()}, archived_at = now() where id = ${old.id}`
  expect(await schema(old.id)).toMatchObject({ files: [{ id: old.id }], total_files: 1 })
  expect(filesRead()).toEqual([old.filename])
  const other = await (await zone()).upload('other.csv')
  expect(schema(other.id)).rejects.toMatchObject({ status: 404, message: `file ${other.id} not found` })
})

test('differences compare detected with expected columns', async () => {
  const { ref, service, upload, schema } = await zone()
  await upload('a.csv')
  await service.update(ref, { expected_schema: '"Flight No":INT8,day:DATE' })
  expect(await schema()).toMatchObject({
    expected: [
      { name: 'Flight No', type: 'INT8' },
      { name: 'day', type: 'DATE' },
    ],
    differences: [
      { column: 'day', kind: 'missing', expected_type: 'DATE', detected_type: null },
      { column: 'code', kind: 'unexpected', expected_type: null, detected_type: 'VARCHAR' },
    ],
  })
  const { detected_schema } = await schema()
  await service.update(ref, { expected_schema: detected_schema })
  expect(await schema()).toMatchObject({ expected: COLUMNS, differences: [] })
})

test('a refusal of the preview and a missing zone are passed on', async () => {
  const refused = new Error('landing/x/a.csv line 2: correct the row')
  const { upload, schema, service, ref } = await zone(() => Promise.reject(refused))
  await upload('a.csv')
  expect(schema()).rejects.toBe(refused)
  await service.remove(ref)
  expect(schema()).rejects.toMatchObject({
    status: 404,
    message: `landing zone default.${ref.name} not found`,
  })
})
