import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { limits } from '../core/limits.ts'
import { compareKeys } from './key.ts'
import { type ObjectStore, ObjectTooLarge } from './port.ts'

const MIB = 1_048_576
let folders = 0
/** Each test uses a separate folder, because all tests and earlier runs share the store. */
const newFolder = () => `suite-${Date.now().toString(36)}-${folders++}/`

interface SuiteOptions {
  /** False for servers that store keys as paths of a file system, and so refuse the key `a` beside `a/b`. */
  keysMayBeFolders: boolean
  /** Number of random histories. */
  histories: number
}

/** The tests of every object store. `open` is called once. */
export function objectStoreSuite(
  name: string,
  open: () => Promise<ObjectStore>,
  { keysMayBeFolders, histories }: SuiteOptions,
) {
  describe(name, () => {
    let store: ObjectStore
    beforeAll(async () => {
      store = await open()
    })
    afterAll(() => store.close())

    test('reads a put back with its size, version and time', async () => {
      const key = `${newFolder()}pipeline.sql`
      const before = Date.now()
      const { versionId, size } = await store.put(key, bytes('select 1'), { contentType: 'text/plain' })
      expect(size).toBe(8)
      expect(versionId).not.toBe('')
      const found = await store.text(key)
      expect(found).toMatchObject({ text: 'select 1', size: 8, versionId })
      // S3 reports whole seconds.
      expect(found?.modified.getTime()).toBeGreaterThan(before - 1001)
      expect(found?.modified.getTime()).toBeLessThan(Date.now() + 1001)
      const info = await store.head(key)
      expect(info).toMatchObject({ size: 8, versionId })
    })

    test('reads only the bytes of a range', async () => {
      for (const key of [`${newFolder()}a`, `_lake/${newFolder()}a`]) {
        const { versionId } = await store.put(
          key,
          new Uint8Array(MIB).map((_, at) => at % 251),
        )
        for (const [start, end] of [
          [0, 1],
          [7, 400_000],
          [MIB - 5, MIB],
        ] as const) {
          const found = await store.get(key, versionId, { start, end })
          expect(found?.size).toBe(MIB)
          const read = new Uint8Array(await new Response(found?.body).arrayBuffer())
          expect([read.length, read[0], read.at(-1)]).toEqual([end - start, start % 251, (end - 1) % 251])
        }
      }
    })

    test('a pinned version stays readable after later puts and deletes', async () => {
      const key = `${newFolder()}a.sql`
      const first = await store.put(key, bytes('one'))
      const second = await store.put(key, bytes('two'))
      await store.delete(key)
      expect((await store.text(key, first.versionId))?.text).toBe('one')
      expect((await store.text(key, second.versionId))?.text).toBe('two')
      expect(await store.head(key, first.versionId)).toMatchObject({ size: 3, versionId: first.versionId })
      expect(await store.get(key)).toBeNull()
      expect(await store.head(key)).toBeNull()
    })

    test('a deleted key can be put again', async () => {
      const folder = newFolder()
      await store.put(`${folder}a`, bytes('one'))
      await store.delete(`${folder}a`)
      expect((await store.list(folder, { limit: 10 })).objects).toEqual([])
      await store.put(`${folder}a`, bytes('two'))
      expect((await store.text(`${folder}a`))?.text).toBe('two')
    })

    test('a missing key is null and can be deleted without error', async () => {
      const key = `${newFolder()}none/at/all`
      expect(await store.get(key)).toBeNull()
      expect(await store.head(key)).toBeNull()
      expect(await store.text(key)).toBeNull()
      await store.delete(key)
      await store.removeAll(`${key}/`)
      expect((await store.list(key, { limit: 10 })).objects).toEqual([])
    })

    test('a missing version is null and can be deleted without error', async () => {
      const key = `${newFolder()}a`
      const { versionId } = await store.put(key, bytes('one'))
      await store.put(key, bytes('two'))
      await store.deleteVersion(key, versionId)
      for (const id of [versionId, 'no-such-version', '../../a']) {
        expect(await store.get(key, id)).toBeNull()
        expect(await store.head(key, id)).toBeNull()
        await store.deleteVersion(key, id)
      }
      expect((await store.text(key))?.text).toBe('two')
    })

    test('removing the newest version restores the previous version', async () => {
      const folder = newFolder()
      const first = await store.put(`${folder}a`, bytes('one'))
      const second = await store.put(`${folder}a`, bytes('second'))
      await store.deleteVersion(`${folder}a`, second.versionId)
      expect((await store.text(`${folder}a`))?.text).toBe('one')
      const { objects } = await store.list(folder, { limit: 10 })
      expect(objects).toMatchObject([{ key: `${folder}a`, size: 3, versionId: first.versionId }])
    })

    test('lists and permanently removes every version and delete marker', async () => {
      const folder = newFolder()
      const first = await store.put(`${folder}a/one`, bytes('1'))
      const second = await store.put(`${folder}a/one`, bytes('22'))
      await store.delete(`${folder}a/one`)
      const other = await store.put(`${folder}b~`, bytes('333'))
      await store.put(`${folder.slice(0, -1)}x/c`, bytes('beyond'))
      const { versions, truncated } = await store.versions(folder)
      expect(truncated).toBe(false)
      const listed = versions.map(({ key, versionId, size, isNewest }) => ({
        key,
        versionId,
        size,
        isNewest,
      }))
      const markerId = listed.find(({ size }) => size === null)?.versionId ?? ''
      const bySize = (a: { size: number | null }, b: { size: number | null }) => (a.size ?? 0) - (b.size ?? 0)
      expect(listed.toSorted(bySize)).toEqual([
        { key: `${folder}a/one`, versionId: markerId, size: null, isNewest: true },
        { key: `${folder}a/one`, versionId: first.versionId, size: 1, isNewest: false },
        { key: `${folder}a/one`, versionId: second.versionId, size: 2, isNewest: false },
        { key: `${folder}b~`, versionId: other.versionId, size: 3, isNewest: true },
      ])
      expect((await store.versions(folder, `${folder}a/one`)).versions.map(({ key }) => key)).toEqual([
        `${folder}b~`,
      ])
      expect((await store.versions(`${folder}a/`)).versions).toHaveLength(3)
      await store.deleteVersion(`${folder}a/one`, first.versionId)
      await store.deleteVersion(`${folder}a/one`, second.versionId)
      await store.deleteVersion(`${folder}a/one`, markerId)
      expect((await store.versions(folder)).versions.map(({ key }) => key)).toEqual([`${folder}b~`])
      expect(await store.text(`${folder}a/one`, second.versionId)).toBeNull()
    })

    test('removing a delete marker restores the object', async () => {
      const key = `${newFolder()}a`
      await store.put(key, bytes('one'))
      await store.delete(key)
      const marker = (await store.versions(key)).versions.find(({ size }) => size === null)
      await store.deleteVersion(key, marker?.versionId ?? '')
      expect((await store.text(key))?.text).toBe('one')
    })

    test('pages of versions hold whole keys, each key once', async () => {
      const folder = newFolder()
      for (let n = 0; n < 3; n++)
        await Promise.all(
          Array.from({ length: 400 }, (_, key) => store.put(`${folder}${key}`, bytes(String(n)))),
        )
      const versionCounts = new Map<string, number>()
      let after: string | undefined
      for (let truncated = true; truncated; ) {
        const page = await store.versions(folder, after)
        const keys = new Set(page.versions.map(({ key }) => key))
        for (const key of keys) expect(versionCounts.has(key)).toBe(false)
        for (const { key } of page.versions) versionCounts.set(key, (versionCounts.get(key) ?? 0) + 1)
        truncated = page.truncated
        after = page.versions.at(-1)?.key
      }
      expect([versionCounts.size, new Set(versionCounts.values())]).toEqual([400, new Set([3])])
    })

    test('stores an empty object', async () => {
      const folder = newFolder()
      await store.put(`${folder}bytes`, new Uint8Array())
      await store.put(`${folder}stream`, streamed([]))
      expect((await store.text(`${folder}bytes`))?.text).toBe('')
      expect((await store.text(`${folder}stream`))?.text).toBe('')
      expect((await store.list(folder, { limit: 10 })).objects).toHaveLength(2)
    })

    test('text is the stored UTF-8, including a byte order mark', async () => {
      const key = `${newFolder()}text`
      await store.put(key, bytes('\ufeffgrün 日本 \u{1F600}'))
      expect((await store.text(key))?.text).toBe('\ufeffgrün 日本 \u{1F600}')
    })

    test('streams a body of any number of parts in and out', async () => {
      for (const quarters of [1, 20, 40, 49]) {
        const key = `${newFolder()}big`
        const chunks = Array.from({ length: quarters }, (_, index) => new Uint8Array(MIB / 4).fill(index))
        const written = new Bun.CryptoHasher('sha256')
        for (const chunk of chunks) written.update(chunk)
        const { size } = await store.put(key, streamed(chunks), { maxBytes: 32 * MIB })
        expect(size).toBe((quarters * MIB) / 4)
        const read = new Bun.CryptoHasher('sha256')
        for await (const chunk of (await store.get(key))?.body ?? []) read.update(chunk)
        expect(read.digest('hex')).toBe(written.digest('hex'))
      }
    })

    test('a reader may stop half way', async () => {
      const key = `${newFolder()}big`
      await store.put(key, new Uint8Array(2 * MIB))
      for (let round = 0; round < 20; round++) {
        const reader = (await store.get(key))?.body.getReader()
        await reader?.read()
        await reader?.cancel()
      }
      expect((await store.head(key))?.size).toBe(2 * MIB)
    })

    test('refuses a body over the limit, cancels its source, stores nothing', async () => {
      const folder = newFolder()
      const old = await store.put(`${folder}a`, bytes('old'))
      const limit = { maxBytes: 6 * MIB }
      let cancelled = false
      const endless = new ReadableStream<Uint8Array>({
        pull: (controller) => controller.enqueue(new Uint8Array(MIB)),
        cancel: () => {
          cancelled = true
        },
      })
      await expect(store.put(`${folder}a`, endless, limit)).rejects.toThrow(ObjectTooLarge)
      await expect(store.put(`${folder}b`, new Uint8Array(6 * MIB + 1), limit)).rejects.toThrow('max 6MB')
      await expect(store.put(`${folder}c`, streamed([bytes('four')]), { maxBytes: 3 })).rejects.toThrow(
        ObjectTooLarge,
      )
      const exact = await store.put(`${folder}d`, streamed([bytes('four')]), { maxBytes: 4 })
      const { objects } = await store.list(folder, { limit: 10 })
      expect(objects.map((object) => object.versionId)).toEqual([old.versionId, exact.versionId])
      expect(cancelled).toBeTrue()
    })

    test('a failed body stores nothing', async () => {
      const folder = newFolder()
      const chunks = [new Uint8Array(6 * MIB), new Error('the client went away')]
      for (const key of ['small', 'large']) {
        const body = streamed(key === 'small' ? chunks.slice(1) : [...chunks])
        await expect(store.put(folder + key, body)).rejects.toThrow('the client went away')
      }
      expect((await store.list(folder, { limit: 10 })).objects).toEqual([])
    })

    test('a staged body is invisible until its commit, then a normal version', async () => {
      const folder = newFolder()
      for (const [size, key] of [
        [4, undefined],
        [4, `${folder}a`],
        [12 * MIB, undefined],
        [12 * MIB, `${folder}a`],
        [12 * MIB, Promise.resolve(`${folder}a`)],
      ] as const) {
        const chunks = Array.from({ length: 4 }, (_, index) => new Uint8Array(size / 4).fill(index))
        const staged = await store.stage(streamed(chunks), { key, contentType: 'text/csv' })
        expect([staged.size, (await store.list(folder, { limit: 10 })).objects]).toEqual([size, []])
        const { versionId } = await staged.commit(`${folder}a`)
        await staged.discard()
        expect(await store.head(`${folder}a`)).toMatchObject({ size, versionId })
        const read = new Uint8Array(await new Response((await store.get(`${folder}a`))?.body).arrayBuffer())
        expect(Buffer.compare(read, Buffer.concat(chunks))).toBe(0)
        await store.removeAll(folder)
      }
    })

    test('a discarded, oversized, interrupted or misnamed staged body leaves nothing', async () => {
      const folder = newFolder()
      for (const key of [undefined, `${folder}a`]) {
        const large = () => Array.from({ length: 12 }, () => new Uint8Array(MIB))
        const staged = await store.stage(streamed(large()), { key })
        await staged.discard()
        await staged.discard()
        await expect(store.stage(streamed(large()), { key, maxBytes: 11 * MIB })).rejects.toThrow(
          ObjectTooLarge,
        )
        const broken = streamed([...large(), new Error('the client went away')])
        await expect(store.stage(broken, { key })).rejects.toThrow('the client went away')
      }
      const nowhere = await store.stage(bytes('x'))
      await expect(nowhere.commit('a/../b')).rejects.toThrow('path: ')
      await nowhere.discard()
      expect((await store.list(folder, { limit: 10 })).objects).toEqual([])
    })

    test('text is limited in size', async () => {
      const key = `${newFolder()}huge`
      await store.put(key, new Uint8Array(limits.uploadBytes + 1))
      await expect(store.text(key)).rejects.toThrow(ObjectTooLarge)
      const small = `${newFolder()}small`
      const { versionId } = await store.put(small, bytes('12345'))
      await expect(store.text(small, versionId, 4)).rejects.toThrow(ObjectTooLarge)
      expect(await store.text(small, versionId, 5)).toMatchObject({ text: '12345', size: 5, versionId })
      expect((await store.text(key, undefined, limits.uploadBytes + 1))?.size).toBe(limits.uploadBytes + 1)
    })

    test('concurrent puts of one key keep all versions, one as the newest', async () => {
      const key = `${newFolder()}a`
      const puts = await Promise.all(
        Array.from({ length: 20 }, (_, index) => store.put(key, bytes(String(index)))),
      )
      expect(new Set(puts.map((put) => put.versionId)).size).toBe(20)
      for (const [index, { versionId }] of puts.entries())
        expect((await store.text(key, versionId))?.text).toBe(String(index))
      const newest = await store.head(key)
      expect(puts.map((put) => put.versionId)).toContain(newest?.versionId ?? '')
    })

    test('lists the newest versions of a prefix in the order of UTF-8', async () => {
      const folder = newFolder()
      const names = ['b/c', 'a-b', 'a/x/y', 'a.b', 'a0', 'a/b', '\u{1F600}', '\uf000', 'ab', 'é', 'B']
      for (const name of names) await store.put(folder + name, bytes(name))
      await store.put(`${folder}a0`, bytes('newer'))
      await store.put(`${folder}gone`, bytes('gone'))
      await store.delete(`${folder}gone`)
      const listed = async (prefix: string) =>
        (await store.list(folder + prefix, { limit: 100 })).objects.map(({ key }) => key.slice(folder.length))
      const inOrder = ['B', 'a-b', 'a.b', 'a/b', 'a/x/y', 'a0', 'ab', 'b/c', 'é', '\uf000', '\u{1F600}']
      expect(await listed('')).toEqual(inOrder)
      expect(await listed('a')).toEqual(['a-b', 'a.b', 'a/b', 'a/x/y', 'a0', 'ab'])
      expect(await listed('a/')).toEqual(['a/b', 'a/x/y'])
      expect(await listed('a/x/y')).toEqual(['a/x/y'])
      const { objects } = await store.list(`${folder}a0`, { limit: 1 })
      expect(objects).toMatchObject([{ size: 5 }])
    })

    test('pages follow each other without gaps or repeats', async () => {
      const folder = newFolder()
      const names = ['a', 'b/a', 'b/b', 'b/c/a', 'b-', 'c', 'd/a', 'e']
      for (const name of names) {
        await store.put(folder + name, bytes('one'))
        await store.put(folder + name, bytes('two'))
      }
      const all = names.map((name) => folder + name).sort(compareKeys)
      for (const limit of [1, 2, 3, 7, 8, 9]) {
        const listedKeys: string[] = []
        let truncated = true
        for (let after: string | undefined; truncated; after = listedKeys.at(-1)) {
          const page = await store.list(folder, { limit, after })
          listedKeys.push(...page.objects.map(({ key }) => key))
          truncated = page.truncated
          expect(page.objects).toHaveLength(truncated ? limit : listedKeys.length % limit || limit)
        }
        expect(listedKeys).toEqual(all)
      }
    })

    test('a purge removes every version of a folder and nothing beside it', async () => {
      const folder = newFolder()
      const inside = await store.put(`${folder}a/deep/er`, bytes('1'))
      await store.put(`${folder}a/b`, bytes('2'))
      await store.put(`${folder}a/b`, bytes('3'))
      await store.delete(`${folder}a/b`)
      const beside = await store.put(`${folder}ab`, bytes('4'))
      await store.removeAll(`${folder}a/`)
      expect(await store.get(`${folder}a/deep/er`, inside.versionId)).toBeNull()
      expect((await store.list(folder, { limit: 10 })).objects).toMatchObject([
        { key: `${folder}ab`, versionId: beside.versionId },
      ])
      await store.put(`${folder}a/b`, bytes('again'))
      expect((await store.text(`${folder}a/b`))?.text).toBe('again')
    })

    test('names may contain any character', async () => {
      const folder = newFolder()
      const names = [
        'a~b',
        '~',
        '~tmp',
        'a~0000000000000001~5',
        'a~0000000000000001~',
        '100%',
        '%7E',
        ' leading and trailing ',
        'a+b&c=d?e#f',
        `"quotes'<xml>;$(x)\``,
        '..csv',
        'a..b',
        '.hidden',
        '-rf',
        '日本語/ファイル.csv',
        'e\u0301/é',
        '\u{1F468}\u200d\u{1F469}',
        'y'.repeat(230),
        '語'.repeat(75),
      ]
      for (const name of names) await store.put(folder + name, bytes(name))
      for (const name of names) expect((await store.text(folder + name))?.text).toBe(name)
      const { objects } = await store.list(folder, { limit: 100 })
      expect(objects.map(({ key }) => key)).toEqual(names.map((name) => folder + name).sort(compareKeys))
    })

    test('refuses invalid keys', async () => {
      const hostile = [
        '',
        '/etc/passwd',
        'a//b',
        'a/',
        '.',
        '..',
        '../a',
        'a/../b',
        'a/..',
        './a',
        'a/./b',
        'a\\b',
        'a\0b',
        'a\nb',
        '\ud800',
        'a'.repeat(1025),
      ]
      for (const key of hostile) {
        await expect(store.put(key, bytes('x'))).rejects.toThrow('path: ')
        await expect(store.get(key)).rejects.toThrow('path: ')
        await expect(store.head(key)).rejects.toThrow('path: ')
        await expect(store.delete(key)).rejects.toThrow('path: ')
        await expect(store.deleteVersion(key, 'x')).rejects.toThrow('path: ')
      }
      for (const prefix of ['/', '../', 'a//', 'a\0', 'a/../'])
        await expect(store.list(prefix, { limit: 1 })).rejects.toThrow('path: ')
      for (const prefix of ['', 'a', '/', '../', 'a/../'])
        await expect(store.removeAll(prefix)).rejects.toThrow('path: ')
    })

    test('a lake file has no versions, and its delete leaves nothing', async () => {
      const folder = `_lake/${newFolder()}`
      const key = `${folder}data/00001~a.parquet`
      expect(await store.put(key, streamed([bytes('par'), bytes('quet')]))).toEqual({
        versionId: '',
        size: 7,
      })
      expect(await store.text(key, '')).toMatchObject({ text: 'parquet', versionId: '', size: 7 })
      expect(await store.head(key)).toMatchObject({ size: 7, versionId: '' })
      expect((await store.list(folder, { limit: 10 })).objects).toMatchObject([
        { key, size: 7, versionId: '' },
      ])
      expect(await store.get(`${folder}data`)).toBeNull()
      await store.delete(key)
      expect(await store.get(key)).toBeNull()
      await store.delete(key)
      await store.put(key, bytes('x'))
      await store.removeAll(folder)
      expect((await store.list(folder, { limit: 10 })).objects).toEqual([])
    })

    test('a reachable store answers a ping', () => store.ping())

    if (keysMayBeFolders)
      test('a key may also be a folder', async () => {
        const folder = newFolder()
        const names = ['a', 'a/b', 'a/b/c', 'a.b', 'a/b~0000000000000001~1/d']
        for (const name of names) await store.put(folder + name, bytes(name))
        for (const name of names) expect((await store.text(folder + name))?.text).toBe(name)
        const { objects } = await store.list(folder, { limit: 10 })
        expect(objects.map(({ key }) => key.slice(folder.length))).toEqual([...names].sort(compareKeys))
        await store.delete(`${folder}a/b`)
        expect((await store.text(`${folder}a/b/c`))?.text).toBe('a/b/c')
      })

    test('every random history reads like its model in memory', async () => {
      const keys = keysMayBeFolders
        ? ['a', 'a/b', 'a/b/c', 'a-b', 'ab/c', '~', 'é']
        : ['a', 'b/b', 'b/c/d', 'b-b', 'ab/c', '~', 'é']
      const key = fc.constantFrom(...keys)
      const step = fc.oneof(
        {
          weight: 4,
          arbitrary: fc.record({ do: fc.constant('put'), key, text: fc.string({ maxLength: 9 }) }),
        },
        { weight: 2, arbitrary: fc.record({ do: fc.constant('delete'), key }) },
        { weight: 1, arbitrary: fc.record({ do: fc.constant('deleteVersion'), key, nth: fc.nat(3) }) },
        {
          weight: 1,
          arbitrary: fc.record({ do: fc.constant('removeAll'), key: fc.constantFrom('a/', 'b/') }),
        },
      )
      const play = async (steps: Step[]) => {
        const folder = newFolder()
        const model: Model = new Map(keys.map((name) => [name, []]))
        for (const { do: action, key: name, text = '', nth = 0 } of steps) {
          const versions = model.get(name) ?? []
          const target = versions.filter((version) => version.text !== null)[nth]
          if (action === 'put')
            versions.push({ text, id: (await store.put(folder + name, bytes(text))).versionId })
          if (action === 'delete') {
            await store.delete(folder + name)
            if (versions.at(-1)?.text != null) versions.push({ text: null, id: '' })
          }
          if (action === 'deleteVersion' && target) {
            await store.deleteVersion(folder + name, target.id)
            versions.splice(versions.indexOf(target), 1)
          }
          if (action === 'removeAll') {
            await store.removeAll(folder + name)
            for (const [other, theirs] of model) if (other.startsWith(name)) theirs.length = 0
          }
        }
        for (const [name, versions] of model) {
          expect((await store.text(folder + name))?.text ?? null).toBe(versions.at(-1)?.text ?? null)
          for (const { id, text } of versions)
            if (text !== null) expect((await store.text(folder + name, id))?.text).toBe(text)
        }
        const { objects } = await store.list(folder, { limit: 100 })
        const listed = objects.map(({ key, versionId }) => ({ key: key.slice(folder.length), versionId }))
        const live = [...model].flatMap(([name, versions]) => {
          const newest = versions.at(-1)
          return newest && newest.text !== null ? [{ key: name, versionId: newest.id }] : []
        })
        expect(listed).toEqual(live.sort((a, b) => compareKeys(a.key, b.key)))
        await store.removeAll(folder)
      }
      const history = fc.array<Step>(step, { minLength: 1, maxLength: 25 })
      await fc.assert(fc.asyncProperty(history, play), { numRuns: histories })
    }, 60_000)
  })
}

interface Step {
  do: string
  key: string
  text?: string
  nth?: number
}
/** The versions of each key, the oldest first; a delete marker has no text. */
type Model = Map<string, { text: string | null; id: string }[]>

export const bytes = (text: string) => new TextEncoder().encode(text)

/** A body of these chunks; an Error among them fails the body. */
export function streamed(chunks: (Uint8Array | Error)[]): ReadableStream<Uint8Array> {
  const remaining = [...chunks]
  return new ReadableStream({
    pull(controller) {
      const next = remaining.shift()
      if (next === undefined) controller.close()
      else if (next instanceof Error) controller.error(next)
      else controller.enqueue(next)
    },
  })
}
