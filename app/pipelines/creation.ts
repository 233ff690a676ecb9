// Creates a pipeline: its row, and starter files that can be published and run unchanged.
import { stringify } from 'yaml'
import type { Db, Sql } from '../../drizzle/client.ts'
import { tableKey } from '../../ground/names.ts'
import { splitList } from '../../lake/pipeline/annotations.ts'
import { parseConfig } from '../../lake/pipeline/config.ts'
import { NameError, parseTableName, parseZoneName } from '../../lake/pipeline/names.ts'
import { quoteIdentifier } from '../../lake/quote.ts'
import { visibleZones } from '../access/service.ts'
import { EVERYTHING, type Visible } from '../core/access.ts'
import { AppError, alreadyExists, invalid } from '../core/errors.ts'
import type { NewId } from '../core/ids.ts'
import { type PipelineRef, prefixOf } from '../core/pipeline-ref.ts'
import { type LandingReader, landingQuery, landingReaderOf } from '../files/landing-reader.ts'
import type { ObjectStore } from '../objects/port.ts'
import { forgetOthers } from '../triggers/service.ts'
import { removeLeftoverFiles } from './deletion.ts'
import { firstDraft } from './draft.ts'
import { sourceFileOf } from './draft-files.ts'
import type { CreatePipeline } from './schema.ts'
import { insertPipeline, type PipelineType } from './store/pipelines.ts'

export interface CreationDeps {
  db: Db
  sql: Sql
  objects: ObjectStore
  newId: NewId
  /** Throws 400 naming `namespace` if the namespace does not exist. */
  requireNamespace(name: string): Promise<void>
}

export function makeCreation({ db, sql, objects, newId, requireNamespace }: CreationDeps) {
  /**
   * Inserts the row first. So of two concurrent creations of one name, the second waits and is refused before it writes a file.
   * The row becomes visible only when the files exist. A crash in between leaves files without a pipeline; the next creation
   * overwrites them. Returns the paths of the files.
   */
  async function create(
    body: CreatePipeline,
    owner: string | null = null,
    visible: Visible = EVERYTHING,
    by: string | null = null,
  ) {
    const { namespace, layer, name, type = 'sql', description = '', max_versions: maxVersions } = body
    const ref = { namespace, layer, name }
    await requireNamespace(namespace)
    const source = await chosenSource(body, visible)
    const files = Object.entries(
      starterFiles({ type, description, source, uniqueKey: splitList(body.unique_key ?? '') }),
    )
    const prefix = prefixOf(ref)
    await db.transaction(async (tx) => {
      const draftAuthors = by === null ? [] : [by]
      const pipeline = {
        id: newId(),
        ...ref,
        type,
        owner,
        description,
        maxVersions,
        draftAuthors,
        ...firstDraft(),
      }
      if (!(await insertPipeline(tx, pipeline))) throw alreadyExists(`pipeline ${namespace}.${layer}.${name}`)
      await removeLeftoverFiles(tx, objects, prefix)
      await putAll(objects, prefix, files)
      if (owner !== null) await forgetOthers(tx, `pipeline:${namespace}.${layer}.${name}`, owner)
    })
    return files.map(([file]) => prefix + file)
  }

  async function chosenSource({ source = '', ...ref }: CreatePipeline, visible: Visible): Promise<Source> {
    if (source === '') return { kind: 'none' }
    const chosen = sourceOf(source, ref)
    if ('table' in chosen) return { kind: 'table', ref: chosen.table }
    // Names of landing files start with their time. So the first object is a file of the zone, not of a sub-folder.
    const isSeen = (await visibleZones(sql, [`${ref.namespace}.${chosen.zone}`], visible)).length > 0
    const { objects: landed } = isSeen
      ? await objects.list(`${ref.namespace}/landing/${chosen.zone}/`, { limit: 1 })
      : { objects: [] }
    return { kind: 'zone', zone: chosen.zone, reader: landingReaderOf(landed[0]?.key ?? '') }
  }

  return create
}

/** Writes all files, or removes the versions it wrote. */
async function putAll(objects: ObjectStore, prefix: string, files: [name: string, text: string][]) {
  const written: { key: string; versionId: string }[] = []
  try {
    for (const [name, text] of files) {
      const key = prefix + name
      const { versionId } = await objects.put(key, new TextEncoder().encode(text))
      written.push({ key, versionId })
    }
  } catch (error) {
    await Promise.allSettled(written.map(({ key, versionId }) => objects.deleteVersion(key, versionId)))
    throw error
  }
}

/** The input of a new pipeline. `layer.name` and `ns.layer.name` are tables; a name without dots is a landing zone. */
type Source =
  | { kind: 'table'; ref: string }
  | { kind: 'zone'; zone: string; reader: LandingReader }
  | { kind: 'none' }

interface Starter {
  type: PipelineType
  description: string
  source: Source
  uniqueKey: string[]
}

/** Files of a new pipeline by name: a source that can be published and run unchanged, and the configuration. */
function starterFiles(starter: Starter): Record<string, string> {
  const { type, description, uniqueKey } = starter
  const config = stringify({
    description,
    merge_strategy: uniqueKey.length === 0 ? 'full_refresh' : 'incremental',
    ...(uniqueKey.length === 0 ? {} : { unique_key: uniqueKey }),
  })
  const [problem] = parseConfig({ config: { path: 'config.yaml', text: config } }).errors
  // The message begins with the configuration key, which is also the name of the request's field.
  if (problem !== undefined) throw new AppError(400, 'INVALID_ARGUMENT', problem.message)
  return {
    [sourceFileOf(type)]: type === 'python' ? pythonSource(starter) : sqlSource(starter),
    'config.yaml': config,
  }
}

/** Throws 400 naming `source` if the text is neither a valid table name nor a valid zone name. */
function sourceOf(text: string, { namespace }: PipelineRef): { table: string } | { zone: string } {
  try {
    if (!text.includes('.')) return { zone: parseZoneName(text) }
    const table = parseTableName(text, namespace)
    return { table: table.namespace === namespace ? `${table.layer}.${table.name}` : tableKey(table) }
  } catch (error) {
    if (error instanceof NameError) throw invalid('source', error.message)
    throw error
  }
}

const exampleColumns = (uniqueKey: string[]) =>
  (uniqueKey.length === 0 ? ['id'] : uniqueKey).map((column) => `1 as ${quoteIdentifier(column)}`).join(', ')

/** A template that renders to `sql`, even if column names in it look like template syntax. */
const asText = (sql: string) => sql.replaceAll(/\{(?=[{%#])/g, "{{ '{' }}")

function sqlSource({ source, uniqueKey }: Starter): string {
  switch (source.kind) {
    case 'table':
      return `select *\nfrom {{ ref('${source.ref}') }}\n`
    case 'zone':
      return landingQuery(source.reader, source.zone)
    case 'none':
      return `select ${asText(exampleColumns(uniqueKey))}\n`
  }
}

function pythonSource({ source, uniqueKey }: Starter): string {
  switch (source.kind) {
    case 'table':
      return `result = sql("select * from " + ref("${source.ref}"))\n`
    case 'zone':
      return `files = landing_zone("${source.zone}")\nresult = sql(f"select * from ${source.reader}('{files}')")\n`
    case 'none':
      return `result = sql(${JSON.stringify(`select ${exampleColumns(uniqueKey)}`)})\n`
  }
}
