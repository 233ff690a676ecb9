import { afterEach, beforeEach, expect, test } from 'bun:test'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { makeDirectoryCache } from './disk-files.ts'

let root: string
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'sluice-ways-'))
})
afterEach(() => rm(root, { recursive: true }))

let files = 0
async function aFile(): Promise<string> {
  files += 1
  const path = join(root, `file-${files}`)
  await writeFile(path, 'content')
  return path
}

type Ways = ReturnType<typeof makeDirectoryCache>

async function put(ways: Ways, directory: string, name: string): Promise<void> {
  await ways.moveInto(join(root, directory), name, await aFile())
  await ways.secure(join(root, directory))
}

/** Puts a file into a directory and returns the directories that were synced. */
function watched() {
  const synced: string[] = []
  const ways = makeDirectoryCache(root, async (directory) => void synced.push(relative(root, directory)))
  return async (directory: string) => {
    synced.length = 0
    await put(ways, directory, 'name')
    return synced.toSorted()
  }
}

test('creates and syncs the path to a new file once', async () => {
  const moved = watched()
  expect(await moved('a/b/c')).toEqual(['', 'a', 'a/b', 'a/b/c'])
  expect(await moved('a/b/c')).toEqual(['a/b/c'])
  expect(await moved('a/b/d')).toEqual(['a/b', 'a/b/d'])
})

test('syncs a path that another writer created but has not synced', async () => {
  const begun = Promise.withResolvers<void>()
  const slow = makeDirectoryCache(root, () => {
    begun.resolve()
    return new Promise(() => {})
  })
  void put(slow, 'a/b', 'slow')
  await begun.promise
  const moved = watched()
  expect(await moved('a/b')).toEqual(['', 'a', 'a/b'])
})

test('syncs a path again after its removal, also for concurrent writers', async () => {
  const held = Promise.withResolvers<void>()
  const begun = Promise.withResolvers<void>()
  const synced: string[] = []
  let isHeld = false
  const ways = makeDirectoryCache(root, async (directory) => {
    synced.push(relative(root, directory))
    if (!isHeld) return
    begun.resolve()
    await held.promise
  })
  const move = (name: string) => put(ways, 'a/b', name)
  await move('first')
  await rm(join(root, 'a'), { recursive: true })
  isHeld = true
  const second = move('second')
  await begun.promise
  isHeld = false
  synced.length = 0
  await move('third')
  expect(synced.toSorted()).toEqual(['', 'a', 'a/b'])
  held.resolve()
  await second
  synced.length = 0
  await move('fourth')
  expect(synced).toEqual(['a/b'])
})
