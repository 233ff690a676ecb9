// An object store in memory: fast enough for a simulation, and with reproducible version ids. It passes the suite of all
// stores.
import type { Clock } from '../app/core/clock.ts'
import { limits } from '../app/core/limits.ts'
import { chunksOf } from '../app/objects/body.ts'
import { checkFolder, checkKey, checkPrefix, compareKeys, isLakeKey } from '../app/objects/key.ts'
import { type Body, type ObjectInfo, type ObjectStore, ObjectTooLarge } from '../app/objects/port.ts'

interface Version {
  id: string
  /** Null: a delete marker. */
  bytes: Uint8Array | null
  modified: Date
}

interface MemoryStore extends ObjectStore {
  /** Returns whether a version can be read. */
  holds(key: string, versionId: string): boolean
  clear(): void
  /** A copy of the content, as the start of another store. */
  contents(): Contents
}

export interface Contents {
  versions: ReadonlyMap<string, readonly Version[]>
  count: number
}

export function openMemoryStore(clock: Clock, contents?: Contents): MemoryStore {
  const stored = copied(contents?.versions ?? new Map())
  let count = contents?.count ?? 0

  const findVersion = (key: string, versionId?: string): (Version & { bytes: Uint8Array }) | null => {
    checkKey(key)
    const versions = stored.get(key) ?? []
    const version = versionId === undefined ? versions.at(-1) : versions.find(({ id }) => id === versionId)
    if (version === undefined || version.bytes === null) return null
    return { ...version, bytes: version.bytes }
  }
  const infoOf = ({ id, bytes, modified }: Version): ObjectInfo => ({
    size: bytes?.byteLength ?? 0,
    modified,
    versionId: id,
  })

  function storeVersion(key: string, bytes: Uint8Array) {
    checkKey(key)
    const id = isLakeKey(key) ? '' : `v${String(++count).padStart(12, '0')}`
    const version = { id, bytes, modified: clock.now() }
    stored.set(key, isLakeKey(key) ? [version] : [...(stored.get(key) ?? []), version])
    return { versionId: id, size: bytes.byteLength }
  }

  return {
    async put(key, body, { maxBytes = Number.POSITIVE_INFINITY } = {}) {
      checkKey(key)
      return storeVersion(key, await bytesOf(body, maxBytes))
    },
    async stage(body, { maxBytes = Number.POSITIVE_INFINITY } = {}) {
      const bytes = await bytesOf(body, maxBytes)
      return {
        size: bytes.byteLength,
        commit: async (key) => ({ versionId: storeVersion(key, bytes).versionId }),
        discard: async () => {},
      }
    },
    async get(key, versionId, range) {
      const version = findVersion(key, versionId)
      return (
        version && { ...infoOf(version), body: streamOf(version.bytes.subarray(range?.start, range?.end)) }
      )
    },
    async head(key, versionId) {
      const version = findVersion(key, versionId)
      return version && infoOf(version)
    },
    async text(key, versionId, maxBytes = limits.uploadBytes) {
      const version = findVersion(key, versionId)
      if (version === null) return null
      if (version.bytes.byteLength > maxBytes) throw new ObjectTooLarge(maxBytes)
      const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(version.bytes)
      return { ...infoOf(version), text }
    },
    async delete(key) {
      checkKey(key)
      const versions = stored.get(key)
      if (versions === undefined) return
      if (isLakeKey(key)) stored.delete(key)
      else if (versions.at(-1)?.bytes !== null)
        versions.push({ id: `v${String(++count).padStart(12, '0')}`, bytes: null, modified: clock.now() })
    },
    async deleteVersion(key, versionId) {
      checkKey(key)
      const remaining = (stored.get(key) ?? []).filter(({ id }) => id !== versionId)
      if (remaining.length > 0) stored.set(key, remaining)
      else stored.delete(key)
    },
    async list(prefix, { limit, after = '' }) {
      checkPrefix(prefix)
      const live = [...stored]
        .filter(([key]) => key.startsWith(prefix) && (after === '' || compareKeys(key, after) > 0))
        .flatMap(([key, versions]) => {
          const newest = versions.at(-1)
          return newest === undefined || newest.bytes === null ? [] : [{ key, ...infoOf(newest) }]
        })
        .sort((a, b) => compareKeys(a.key, b.key))
      const size = Math.min(limit, limits.listCap)
      return { objects: live.slice(0, size), truncated: live.length > size }
    },
    async versions(prefix, after = '') {
      checkPrefix(prefix)
      const found = [...stored]
        .filter(([key]) => key.startsWith(prefix) && (after === '' || compareKeys(key, after) > 0))
        .sort(([a], [b]) => compareKeys(a, b))
        .flatMap(([key, versions]) =>
          versions.map((version) => ({
            key,
            versionId: version.id,
            size: version.bytes?.byteLength ?? null,
            modified: version.modified,
            isNewest: version === versions.at(-1),
          })),
        )
      return { versions: found, truncated: false }
    },
    async removeAll(prefix) {
      checkFolder(prefix)
      for (const key of [...stored.keys()]) if (key.startsWith(prefix)) stored.delete(key)
    },
    async ping() {},
    async close() {},
    holds: (key, versionId) => findVersion(key, versionId) !== null,
    clear() {
      stored.clear()
      count = 0
    },
    contents: () => ({ versions: copied(stored), count }),
  }
}

const copied = (kept: Contents['versions']) =>
  new Map([...kept].map(([key, versions]): [string, Version[]] => [key, [...versions]]))

async function bytesOf(body: Body, maxBytes: number): Promise<Uint8Array> {
  const parts: Uint8Array[] = []
  // Copies each chunk, because its memory is reused for the next one. `slice` of a Buffer would not copy.
  for await (const chunk of chunksOf(body, maxBytes)) parts.push(new Uint8Array(chunk))
  return Buffer.concat(parts)
}

const streamOf = (bytes: Uint8Array) =>
  new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(bytes)
      controller.close()
    },
  })
