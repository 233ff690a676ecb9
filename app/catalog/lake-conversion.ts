// Rewrites the metadata and the position delete files of one table for another root of the lake. Data files stay where they are.

import { BadAvro } from '../../lake/iceberg/format/avro-schema.ts'
import { BadLocation, keyIn } from '../../lake/iceberg/format/location.ts'
import { readManifestList } from '../../lake/iceberg/format/manifest.ts'
import { parseMetadata, serializeMetadata } from '../../lake/iceberg/format/metadata.ts'
import {
  type Copy,
  copyLocation,
  type DeletesCopy,
  positionDeletesIn,
  relocated,
  relocatedList,
  relocatedManifest,
  relocatedMetadata,
} from '../../lake/iceberg/format/relocated.ts'
import { parseViewMetadata, serializeView } from '../../lake/iceberg/view.ts'
import type { Log } from '../core/log.ts'
import { bytesOf } from '../objects/body.ts'
import type { ObjectStore } from '../objects/port.ts'
import { copyPositionDeletes } from './relocated-deletes.ts'
import type { OldState } from './store/lake-root.ts'

/** Manifests of one table that are copied in parallel. A manifest of 10,000 files takes some ten megabytes. */
const MANIFESTS_AT_ONCE = 4

export interface ConversionParts {
  objects: ObjectStore
  /** The new root. */
  root: string
  log: Log
}

/**
 * Writes copies of the metadata files, manifest lists, manifests and position delete files of these states of one table, each
 * file once. Returns the
 * states with their new metadata files. A lost or damaged file keeps its key, so its state stays as unreadable as before.
 */
export async function convertTable(
  parts: ConversionParts,
  states: readonly OldState[],
): Promise<{ id: string; metadataLocation: string }[]> {
  const table = new TableCopies(parts)
  const moved: { id: string; metadataLocation: string }[] = []
  for (const { id, kind, metadataLocation, isRead } of states) {
    const copy = await table.metadata(metadataLocation, kind)
    if (copy === null && isRead)
      parts.log.error(`lake conversion: metadata file ${metadataLocation} is lost or damaged`)
    moved.push({ id, metadataLocation: copy ?? relocated(parts.root, metadataLocation) })
  }
  return moved
}

const DAMAGE = [BadAvro, BadLocation, SyntaxError]

/** Only the view's own location has the root: its SQL names tables. */
function relocatedView(bytes: Uint8Array, root: string): Uint8Array {
  const metadata = parseViewMetadata(new TextDecoder().decode(bytes))
  const location = relocated(root, metadata.location)
  return new TextEncoder().encode(serializeView({ ...metadata, location }))
}

/** The copied files of one table by their old locations. */
class TableCopies {
  readonly #parts: ConversionParts
  /** Null: the file is lost or damaged. */
  readonly #metadata = new Map<string, string | null>()
  readonly #lists = new Map<string, string>()
  readonly #manifests = new Map<string, Copy | null>()
  readonly #deletes = new Map<string, DeletesCopy | null>()

  constructor(parts: ConversionParts) {
    this.#parts = parts
  }

  async metadata(location: string, kind: OldState['kind']): Promise<string | null> {
    const known = this.#metadata.get(location)
    if (known !== undefined) return known
    const copy = await this.#copy(location, async (bytes) => {
      if (kind === 'view') return relocatedView(bytes, this.#parts.root)
      const metadata = parseMetadata(new TextDecoder().decode(bytes))
      for (const snapshot of metadata.snapshots) await this.#list(snapshot['manifest-list'])
      const text = serializeMetadata(relocatedMetadata(metadata, this.#parts.root, this.#lists))
      return new TextEncoder().encode(text)
    })
    this.#metadata.set(location, copy?.location ?? null)
    return copy?.location ?? null
  }

  /** A list without a copy keeps its key: only expired snapshots of old states have lost their lists. */
  async #list(location: string): Promise<void> {
    if (this.#lists.has(location)) return
    const { root } = this.#parts
    const copy = await this.#copy(location, async (bytes) => {
      const copies = new Map<string, Copy>()
      const listed = readManifestList(bytes)
      // One at a time, so that the deletes of one table take one engine.
      for (const { location, content } of listed) if (content === 'deletes') await this.#manifest(location)
      const manifests = listed.map(({ location }) => location)
      for (let from = 0; from < manifests.length; from += MANIFESTS_AT_ONCE)
        await Promise.all(
          manifests.slice(from, from + MANIFESTS_AT_ONCE).map(async (manifest) => {
            const copy = await this.#manifest(manifest)
            if (copy !== null) copies.set(manifest, copy)
          }),
        )
      return relocatedList(bytes, root, copies)
    })
    this.#lists.set(location, copy?.location ?? relocated(root, location))
  }

  async #manifest(location: string): Promise<Copy | null> {
    const known = this.#manifests.get(location)
    if (known !== undefined) return known
    const copy = await this.#copy(location, async (bytes) => {
      const { root } = this.#parts
      const deletes = new Map<string, DeletesCopy>()
      for (const each of positionDeletesIn(bytes, root)) {
        const rewritten = await this.#positionDeletes(each)
        if (rewritten !== null) deletes.set(each, rewritten)
      }
      return relocatedManifest(bytes, root, deletes)
    })
    this.#manifests.set(location, copy)
    return copy
  }

  /** Null: the file is lost or damaged. */
  async #positionDeletes(location: string): Promise<DeletesCopy | null> {
    const known = this.#deletes.get(location)
    if (known !== undefined) return known
    const copy = await copyPositionDeletes(this.#parts.objects, this.#parts.root, location)
    this.#deletes.set(location, copy)
    return copy
  }

  /** Null: the file is lost or damaged. */
  async #copy(location: string, change: (bytes: Uint8Array) => Promise<Uint8Array>): Promise<Copy | null> {
    const { objects, root } = this.#parts
    try {
      const bytes = await bytesOf(objects, keyIn(location))
      if (bytes === null) return null
      const changed = await change(bytes)
      const copy = copyLocation(root, location)
      await objects.put(keyIn(copy), changed, { usesReserve: true })
      return { location: copy, sizeBytes: changed.byteLength }
    } catch (error) {
      if (DAMAGE.some((kind) => error instanceof kind)) return null
      throw error
    }
  }
}
