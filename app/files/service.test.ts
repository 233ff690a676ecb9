import { describe, expect, test } from 'bun:test'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Visible } from '../core/access.ts'
import { newId } from '../core/ids.ts'
import { entityTag, preconditionOf } from '../http/conditions.ts'
import type { KeyOf } from '../http/idempotency-key.ts'
import { formWith } from '../http/test-form.ts'
import { onSlowDisk, useParts } from '../pipelines/test-parts.ts'
import { makeFileService } from './service.ts'

const parts = useParts()
const draftChanges: string[] = []

const files = () =>
  makeFileService({
    ...parts,
    takesFiles: parts.namespaces.takesFiles,
    fileWritten: async ({ name }, cause) => void draftChanges.push(`${name}: ${cause}`),
  })
const all = { limit: 100, offset: 0 }
const statusOf = async (promise: Promise<unknown>) => {
  try {
    await promise
    return 200
  } catch (error) {
    return error instanceof Error && 'status' in error ? error.status : error
  }
}

test('a file returns its newest version, and each version by its id', async () => {
  const path = 'default/notes/a.md'
  const first = await files().write(path, '\uFEFFÉté\r\n')
  const second = await files().write(path, 'two')
  expect(first.version_id).not.toBe(second.version_id)
  const { content } = await files().read(path)
  expect(content).toMatchObject({
    path,
    content: 'two',
    encoding: 'utf-8',
    size: 3,
    version_id: second.version_id,
  })
  expect(Date.parse(content?.modified ?? '')).not.toBeNaN()
  expect((await parts.objects.text(path, first.version_id))?.text).toBe('\uFEFFÉté\r\n')
  expect(await statusOf(files().read('default/notes/none.md'))).toBe(404)
})

test('content that is not UTF-8 is read as base64', async () => {
  await parts.objects.put('default/notes/x.bin', new Uint8Array([0xff, 0xfe, 0]))
  expect((await files().read('default/notes/x.bin')).content).toMatchObject({
    content: '//4A',
    encoding: 'base64',
    size: 3,
  })
})

test('a file may have 32 MB; a larger file is refused completely', async () => {
  const text = 'x'.repeat(33_554_432)
  expect((await files().write('default/big/full.txt', text)).status).toBe('written')
  expect((await files().read('default/big/full.txt')).content?.size).toBe(33_554_432)
  expect(await statusOf(files().write('default/big/over.txt', `${text}x`))).toBe(413)
  expect((await files().list({ prefix: 'default/big/' }, all)).total).toBe(1)
})

test('no database connection is held during slow disk writes', async () => {
  const key = { caller: '', operation: 'POST test', key: newId(), requestHash: 'same' }
  const form = () => formWith(new File(['a'], 'a.md'), { path: 'default/slow/' })
  const seen = await onSlowDisk(parts, async (slow) => {
    const service = makeFileService({
      ...slow,
      takesFiles: parts.namespaces.takesFiles,
      fileWritten: async () => {},
    })
    await service.write('default/slow/a.md', 'a')
    await service.write('default/slow/a.md', 'b', preconditionOf({ 'if-match': '*' }))
    await service.upload(form())
    await service.upload(form(), () => key)
  })
  expect(seen).toEqual({ files: 4, early: 0 })
})

test('a file needs a namespace that exists, or the contents of a deleted one', async () => {
  const upload = (path: string) => files().upload(formWith(new File(['a'], 'a.md'), { path }))
  const write = (namespace: string) => files().write(`${namespace}/notes/a.md`, 'a')
  const refused = [() => write('nowhere'), () => upload('nowhere/notes/'), () => upload('nowhere/notes/a.md')]
  for (const request of refused)
    await expect(request()).rejects.toMatchObject({
      status: 400,
      message: 'path: namespace nowhere does not exist: create it first',
    })
  expect((await parts.objects.list('nowhere/', { limit: 1 })).objects).toEqual([])
  for (const name of ['emptied', 'kept']) await parts.namespaces.create({ name })
  const service = parts.pipelines()
  await service.create({ namespace: 'kept', layer: 'silver', name: 'orders' })
  for (const name of ['emptied', 'kept']) {
    expect(await statusOf(write(name))).toBe(200)
    await parts.namespaces.remove({ name })
  }
  expect([await statusOf(write('emptied')), await statusOf(write('kept'))]).toEqual([400, 200])
})

describe('drafts', () => {
  const path = 'default/pipelines/silver/orders/pipeline.sql'
  test('only changes under its prefix reach the draft of a pipeline', async () => {
    draftChanges.length = 0
    await files().write(path, 'select 1')
    await files().upload(
      formWith(new File(['# a'], 'README.md'), { path: 'default/pipelines/silver/orders/' }),
    )
    await files().remove(path)
    await files().remove(path)
    await files().write('default/landing/orders/a.csv', 'a')
    expect(draftChanges).toEqual([
      `orders: written ${path}`,
      'orders: written default/pipelines/silver/orders/README.md',
      `orders: deleted ${path}`,
    ])
  })
})

describe('uploads', () => {
  test.each([
    ['default/x/', ''],
    ['default/x/', 'a\nb'],
    ['default/x/', '..'],
  ])('an upload to %p with the file name %p is refused', async (path, name) => {
    expect(await statusOf(files().upload(formWith(new File(['a'], name), { path })))).toBe(400)
  })
})

describe('uploads with a key', () => {
  const path = 'default/data/keyed.csv'
  const keyed = (key: string): KeyOf => {
    return (asked) => ({ caller: '', operation: 'upload', key, requestHash: JSON.stringify(asked) })
  }
  const send = (key: string, text: string) =>
    files().upload(formWith(new File([text], 'a.csv'), { path }, { isHashed: true }), keyed(key))
  const versions = async () => (await parts.objects.versions(path)).versions.length
  const staged = () => readdir(join(parts.root, '~tmp'))

  test('repeated and concurrent uploads with one key are stored once', async () => {
    const key = newId()
    const answers = await Promise.all(Array.from({ length: 8 }, () => send(key, 'once')))
    expect(new Set(answers.map(({ version_id }) => version_id)).size).toBe(1)
    const before = await versions()
    expect(await send(key, 'once')).toEqual(answers[0] as (typeof answers)[0])
    expect([await versions(), await staged()]).toEqual([before, []])
    await send(newId(), 'once')
    expect(await versions()).toBe(before + 1)
  })

  test('a used key with other content conflicts and stores nothing', async () => {
    const key = newId()
    await send(key, 'one')
    const before = await versions()
    expect(await statusOf(send(key, 'two'))).toBe(409)
    expect([await versions(), await staged()]).toEqual([before, []])
  })
})

describe('conditions', () => {
  const condition = (headers: Parameters<typeof preconditionOf>[0]) => preconditionOf(headers)

  test.each(['', 'abc', '"a" "b"', '"a', ',,'])('the If-Match value %p gets 400', (text) => {
    expect(() => condition({ 'if-match': text })).toThrow('If-Match: ')
  })

  test('exactly one of many conditional writers succeeds in each round', async () => {
    const path = 'default/notes/raced.md'
    let present = (await files().write(path, 'start')).version_id
    for (let round = 0; round < 10; round++) {
      const rivals = await Promise.allSettled(
        Array.from({ length: 12 }, (_, rival) =>
          rival === 0
            ? files().remove(path, condition({ 'if-match': '"another"' }))
            : files().write(path, `${round} ${rival}`, condition({ 'if-match': entityTag(present) })),
        ),
      )
      const won = rivals.flatMap((one) => (one.status === 'fulfilled' && one.value ? [one.value] : []))
      expect(won).toHaveLength(1)
      for (const one of rivals)
        if (one.status === 'rejected') expect(one.reason).toMatchObject({ status: 412 })
      present = won[0]?.version_id ?? ''
      expect((await files().read(path)).versionId).toBe(present)
    }
  })

  test('a conditional write never overwrites a concurrent unconditional write', async () => {
    const path = 'default/notes/mixed.md'
    for (let round = 0; round < 10; round++) {
      const { version_id: seen } = await files().write(path, 'seen')
      const [careful] = await Promise.allSettled([
        files().write(path, 'careful', condition({ 'if-match': entityTag(seen) })),
        files().write(path, 'careless'),
      ])
      const texts = await Promise.all(
        (await parts.objects.versions(path)).versions
          .sort((a, b) => (a.versionId < b.versionId ? -1 : 1))
          .slice(-3)
          .map(async ({ versionId }) => (await parts.objects.text(path, versionId))?.text),
      )
      // The conditional write either came first, directly after the seen version, or was refused.
      if (careful.status === 'fulfilled') expect(texts).toEqual(['seen', 'careful', 'careless'])
      else expect(texts.slice(-2)).toEqual(['seen', 'careless'])
    }
  })
})

test('a list contains and counts only visible files', async () => {
  const { sql } = parts
  for (const name of ['mine', 'theirs']) {
    await parts.pipelines().create({ namespace: 'default', layer: 'gold', name })
    await sql`insert into landing_zone (id, namespace, name) values (${newId()}, 'default', ${name})`
    await parts.objects.put(`default/landing/${name}/a.csv`, new Uint8Array(1))
  }
  for (const path of ['pipelines/gold/nobodys/left.sql', 'landing/nobodys/left.csv', 'notes/seen.md'])
    await parts.objects.put(`default/${path}`, new Uint8Array(1))
  const [pipeline] = await sql<{ id: string }[]>`
    select id from pipeline where name = 'mine' and layer = 'gold' and deleted_at is null`
  const [zone] = await sql<{ id: string }[]>`select id from landing_zone where name = 'mine'`
  const pathsTo = async (visible?: Visible, prefix = 'default') => {
    const { files: listed, total } = await files().list({ prefix, exclude: 'big' }, all, visible)
    expect(total).toBe(listed.length)
    return listed.map(({ path }) => path)
  }
  const nothing: Visible = { pipelines: [], zones: [], namespaces: [] }
  const own = ['default/pipelines/gold/mine/config.yaml', 'default/pipelines/gold/mine/pipeline.sql']
  expect(await pathsTo(nothing)).toEqual([])
  expect(await pathsTo(nothing, 'default/pipelines/gold/theirs/')).toEqual([])
  expect(await pathsTo({ ...nothing, pipelines: [pipeline?.id ?? ''] })).toEqual(own)
  expect(await pathsTo({ ...nothing, zones: [zone?.id ?? ''] })).toEqual(['default/landing/mine/a.csv'])
  // Files without a pipeline or zone belong to the namespace; other files do not.
  const ofNamespace = await pathsTo({ ...nothing, namespaces: ['default'] })
  expect(ofNamespace).toContain('default/landing/nobodys/left.csv')
  expect(ofNamespace).toContain('default/pipelines/gold/nobodys/left.sql')
  expect(ofNamespace.filter((path) => /mine|theirs/.test(path))).toEqual([])
  expect(await pathsTo()).toContain('default/pipelines/gold/theirs/pipeline.sql')
})
