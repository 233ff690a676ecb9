// Statistics from the metrics of other writers: missing, cut, or of an older type.
import { expect, test } from 'bun:test'
import { type BoundValue, encodeBound } from '../format/bounds.ts'
import type { ColumnMetrics, DataFile } from '../format/data-file.ts'
import { StatisticsOfColumns } from './column-statistics.ts'
import { deletedRowsOf } from './deletes.ts'
import { manifestsOfPage } from './scan.ts'

const ROWS = 10
const fileOf = (metrics: ColumnMetrics | undefined): DataFile => ({
  content: 'data',
  location: 'f',
  format: 'PARQUET',
  partition: {},
  recordCount: ROWS,
  sizeBytes: 1,
  columns: new Map(metrics ? [[1, metrics]] : []),
})

function statisticsOf(type: string, files: DataFile[]) {
  const field = { id: 1, name: 'v', required: false, type }
  const statistics = new StatisticsOfColumns({ type: 'struct', 'schema-id': 0, fields: [field] })
  for (const file of files) statistics.add(file)
  return statistics.result()[0]
}
const between = (type: string, lower: BoundValue, upper: BoundValue, more: ColumnMetrics = {}) =>
  fileOf({
    nullCount: 0,
    sizeBytes: 5,
    lower: encodeBound(type, lower),
    upper: encodeBound(type, upper),
    ...more,
  })

test('the least and the greatest bound of all files count', () => {
  const files = [between('long', 5n, 9n), between('long', -3n, 4n, { nullCount: 2 }), between('int', 6, 70)]
  expect(statisticsOf('long', files)).toEqual({
    name: 'v',
    type: 'BIGINT',
    nullCount: 2,
    min: '-3',
    max: '70',
    sizeBytes: 15,
  })
  const texts = [between('string', '~', '😀'), between('string', 'b', '\uffff')]
  expect(statisticsOf('string', texts)).toMatchObject({ min: 'b', max: '😀' })
})

test('a file of nulls only needs no bounds', () => {
  const files = [between('int', 1, 2), fileOf({ nullCount: ROWS })]
  expect(statisticsOf('int', files)).toMatchObject({ nullCount: ROWS, min: '1', max: '2', sizeBytes: 5 })
})

test.each<[title: string, file: DataFile, known: object]>([
  ['no metrics', fileOf(undefined), { nullCount: null, min: null, max: null }],
  ['no count of nulls', between('string', 'a', 'b', { nullCount: undefined }), { nullCount: null, min: 'a' }],
  ['no upper bound', between('string', 'a', 'b', { upper: undefined }), { min: 'a', max: null }],
  [
    'a bound that is cut inside a character',
    between('string', 'a', 'b', { lower: new Uint8Array([0xc3]) }),
    { min: null, max: 'x' },
  ],
])('a file with %s makes the value unknown', (_, file, known) => {
  const other = between('string', 'b', 'x')
  for (const files of [
    [file, other],
    [other, file],
  ])
    expect(statisticsOf('string', files)).toMatchObject(known)
})

test('the number of deleted rows is known only from a single deletion vector', () => {
  const file = {
    id: 'd',
    location: 'd',
    sizeBytes: 1,
    recordCount: 3,
    sequenceNumber: 1,
    scope: null,
    columns: null,
  }
  const vector = { ...file, vector: { dataFile: 'f', offset: 4, sizeBytes: 40 } }
  const deletes = (...files: (typeof file)[]) => ({ sequenceNumber: 1, scope: '', files })
  expect(deletedRowsOf(undefined)).toBe(0)
  expect(deletedRowsOf(deletes(vector))).toBe(3)
  expect(deletedRowsOf(deletes(file))).toBeNull()
  expect(deletedRowsOf(deletes(file, vector))).toBeNull()
})

test('a page needs only the manifests with its files', () => {
  const manifest = (location: string, addedFiles: number, existingFiles = 0) => ({
    location,
    sizeBytes: 1,
    specId: 0,
    content: 'data' as const,
    sequenceNumber: 1,
    minSequenceNumber: 1,
    addedSnapshotId: 1n,
    addedFiles,
    existingFiles,
    deletedFiles: 7,
    addedRows: 0,
    existingRows: 0,
    deletedRows: 0,
  })
  const data = [manifest('a', 2), manifest('b', 1, 2), manifest('c', 4)]
  const pageOf = (offset: number, limit: number) => {
    const { manifests, filesBefore } = manifestsOfPage(data, { offset, limit })
    return [manifests.map(({ location }) => location).join(''), filesBefore]
  }
  expect(pageOf(0, 2)).toEqual(['a', 0])
  expect(pageOf(1, 2)).toEqual(['ab', 0])
  expect(pageOf(2, 3)).toEqual(['b', 2])
  expect(pageOf(4, 50)).toEqual(['bc', 2])
  expect(pageOf(9, 50)).toEqual(['', 9])
})
