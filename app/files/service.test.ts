import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '../clock.ts'
import { openDiskStore } from '../objects/disk.ts'
import type { ObjectStore } from '../objects/port.ts'
import { makeFileService } from './service.ts'

let root: string
let objects: ObjectStore
const told: string[] = []
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'sluice-files-'))
  objects = await openDiskStore(root, systemClock)
})
afterAll(async () => {
  await objects.close()
  await rm(root, { recursive: true, force: true })
})

const files = () =>
  makeFileService({ objects, fileWritten: async ({ name }, cause) => void told.push(`${name}: ${cause}`) })
const all = { limit: 100, offset: 0 }
const statusOf = async (promise: Promise<unknown>) => {
  try {
    await promise
    return 200
  } catch (error) {
    return error instanceof Error && 'status' in error ? error.status : error
  }
}

test('what is written is read back, each version of it by its own id', async () => {
  const path = 'default/notes/a.md'
  const first = await files().write(path, '\uFEFFÉté\r\n')
  const second = await files().write(path, 'two')
  expect(first.version_id).not.toBe(second.version_id)
  const read = await files().read(path)
  expect(read).toMatchObject({
    path,
    content: 'two',
    encoding: 'utf-8',
    size: 3,
    version_id: second.version_id,
  })
  expect(Date.parse(read.modified)).not.toBeNaN()
  expect((await objects.text(path, first.version_id))?.text).toBe('\uFEFFÉté\r\n')
  expect(await statusOf(files().read('default/notes/none.md'))).toBe(404)
})

test('what is not UTF-8 is read as base64', async () => {
  await objects.put('default/notes/x.bin', new Uint8Array([0xff, 0xfe, 0]))
  expect(await files().read('default/notes/x.bin')).toMatchObject({
    content: '//4A',
    encoding: 'base64',
    size: 3,
  })
})

test('32 MB are written, one byte more is refused and leaves nothing', async () => {
  const text = 'x'.repeat(33_554_432)
  expect((await files().write('default/big/full.txt', text)).status).toBe('written')
  expect((await files().read('default/big/full.txt')).size).toBe(33_554_432)
  expect(await statusOf(files().write('default/big/over.txt', `${text}x`))).toBe(413)
  expect((await files().list({ prefix: 'default/big/' }, all)).total).toBe(1)
})

describe('the draft of a pipeline', () => {
  const path = 'default/pipelines/silver/orders/pipeline.sql'
  test('is told of writes, uploads and deletions under its prefix, and of nothing else', async () => {
    told.length = 0
    await files().write(path, 'select 1')
    await files().upload({ path: 'default/pipelines/silver/orders/', file: new File(['# a'], 'README.md') })
    await files().remove(path)
    await files().remove(path)
    await files().write('default/landing/orders/a.csv', 'a')
    expect(told).toEqual([
      `orders: written ${path}`,
      'orders: written default/pipelines/silver/orders/README.md',
      `orders: deleted ${path}`,
    ])
  })
})

describe('an upload', () => {
  test('to a path ending in / takes the base name of the file', async () => {
    const file = new File(['a,b'], 'C:\\data\\ä b.csv', { type: 'text/csv' })
    expect(await files().upload({ path: 'default/data/', file })).toMatchObject({
      path: 'default/data/ä b.csv',
      filename: 'ä b.csv',
      size: 3,
      status: 'uploaded',
    })
    expect((await files().upload({ path: 'default/data/other.csv', file })).path).toBe(
      'default/data/other.csv',
    )
  })

  test.each([
    ['default/../x', 'a.csv'],
    ['default/%2e%2e/x', 'a.csv'],
    ['/default/x', 'a.csv'],
    ['', 'a.csv'],
    ['default/x/', ''],
    ['default/x/', 'a\nb'],
    ['default/x/', '..'],
  ])('to %p of %p is refused', async (path, name) => {
    expect(await statusOf(files().upload({ path, file: new File(['a'], name) }))).toBe(400)
  })
})

describe('a listing', () => {
  beforeAll(async () => {
    for (const path of ['one/a.md', 'one/tmp/b.md', 'one/b.sql', 'one-more/c.md'])
      await files().write(`listed/${path}`, 'text')
    await files().write('listed-too/a.md', 'text')
  })
  const paths = async (query: { prefix: string; namespace?: string; exclude?: string }, page = all) =>
    (await files().list(query, page)).files.map(({ path }) => path)

  test('has every file under the prefix and its type, and no other namespace', async () => {
    expect(await paths({ prefix: 'listed' })).toEqual([
      'listed/one-more/c.md',
      'listed/one/a.md',
      'listed/one/b.sql',
      'listed/one/tmp/b.md',
    ])
    const { files: entries } = await files().list({ prefix: 'listed/one/b' }, all)
    expect(entries).toMatchObject([{ path: 'listed/one/b.sql', size: 4, type: 'pipeline-sql' }])
  })

  test('leaves out what has an excluded segment', async () => {
    expect(await paths({ prefix: 'listed/one/', exclude: 'tmp, b.sql' })).toEqual(['listed/one/a.md'])
    expect(await paths({ prefix: 'listed/one/', exclude: '' })).toHaveLength(3)
  })

  test('of a prefix outside the namespace asked for is empty', async () => {
    expect(await paths({ prefix: 'listed/one/', namespace: 'other' })).toEqual([])
    expect(await paths({ prefix: 'listed/one/', namespace: 'listed' })).toHaveLength(3)
  })

  test('is paged, and counts everything', async () => {
    expect(await files().list({ prefix: 'listed/' }, { limit: 1, offset: 1 })).toMatchObject({
      files: [{ path: 'listed/one/a.md' }],
      total: 4,
    })
  })
})
