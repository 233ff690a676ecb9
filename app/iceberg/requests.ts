// Reads the parts of an Iceberg client's request: names and bodies.

import type { TableName } from '../../ground/names.ts'
import { parseJson } from '../../lake/iceberg/format/json.ts'
import { chunksOf } from '../objects/body.ts'
import { badRequest, noSuchTable, noSuchView } from './errors.ts'
import { tableNamed } from './namespaces.ts'

/** A commit holds a schema and the summary of a snapshot. Its file list is in manifests, not in the body. */
const BODY_BYTES_MAX = 4 * 1_048_576
const LEVEL_SEPARATOR = '\x1f'

export const levelsOf = (text: string | undefined) => (text ? text.split(LEVEL_SEPARATOR) : [])

/** The table of a path. An unknown namespace means an unknown table, because engines then look for a metadata table. */
export function tableIn({ namespace, table }: { namespace: string; table: string }): TableName {
  const levels = levelsOf(namespace)
  const named = tableNamed(levels, table)
  if (named === null) throw noSuchTable([...levels, table].join('.'))
  return named
}

/** The view of a path. */
export function viewIn({ namespace, view }: { namespace: string; view: string }): TableName {
  const levels = levelsOf(namespace)
  const named = tableNamed(levels, view)
  if (named === null) throw noSuchView([...levels, view].join('.'))
  return named
}

export function namespaceFrom(body: string): string[] {
  const namespace: unknown = Reflect.get(parsedObject(body), 'namespace')
  if (!Array.isArray(namespace) || !namespace.every((level) => typeof level === 'string'))
    throw badRequest('namespace: must be a list of names')
  return namespace
}

function parsedObject(text: string): object {
  try {
    const value = parseJson(text)
    if (typeof value === 'object' && value !== null) return value
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
  }
  throw badRequest('the body is not a JSON object')
}

/** Reads the body as text: `JSON.parse` would round its int64 ids. */
export async function bodyOf(request: Request): Promise<string> {
  const chunks: Uint8Array[] = []
  if (request.body) for await (const chunk of chunksOf(request.body, BODY_BYTES_MAX)) chunks.push(chunk)
  return Buffer.concat(chunks).toString()
}
