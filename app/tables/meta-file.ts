import { parse } from 'yaml'
import type { TableName } from '../../lake/pipeline/names.ts'
import type { ObjectStore } from '../objects/port.ts'

/** What the `.meta.yaml` next to a pipeline's files says about its table. */
export interface MetaFile {
  description: string | null
  owner: string | null
  columns: Record<string, string>
}

export const NO_META: MetaFile = { description: null, owner: null, columns: {} }

/** Some thousand columns; what is longer was not written by people. */
const BYTES_MAX = 262_144

/**
 * Reads the newest version. A file that is missing, too long or no such YAML says nothing: descriptions are never a
 * reason not to show a table.
 */
export async function readMetaFile(
  objects: ObjectStore,
  { namespace, layer, name }: TableName,
): Promise<MetaFile> {
  const key = `${namespace}/pipelines/${layer}/${name}/.meta.yaml`
  const info = await objects.head(key)
  if (info === null || info.size > BYTES_MAX) return NO_META
  const file = await objects.text(key, info.versionId)
  return file === null ? NO_META : parseMetaFile(file.text)
}

export function parseMetaFile(text: string): MetaFile {
  let value: unknown
  try {
    value = parse(text)
  } catch {
    return NO_META
  }
  if (!isMap(value)) return NO_META
  const columns = isMap(value.columns) ? value.columns : {}
  return {
    description: textOf(value.description),
    owner: textOf(value.owner),
    columns: Object.fromEntries(
      Object.entries(columns).flatMap(([column, said]) => {
        const description = textOf(isMap(said) ? said.description : said)
        return description === null ? [] : [[column, description]]
      }),
    ),
  }
}

const isMap = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const textOf = (value: unknown): string | null =>
  typeof value === 'string' && value.trim() !== '' ? value : null
