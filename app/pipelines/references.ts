import { sql } from 'drizzle-orm'
import type { Queryable } from '../../drizzle/client.ts'
import {
  NameError,
  parseTableName,
  parseZoneName,
  type TableName,
  tableKey,
} from '../../lake/pipeline/names.ts'
import { type Call, pythonReferences, sqlReferences } from '../../lake/pipeline/references.ts'
import type { PipelineRef } from '../core/pipeline-ref.ts'
import { type DraftFile, sourceFileOf } from './draft-files.ts'

/** What files name by literal calls: tables as `ns.layer.name`, zones as `ns.zone`. */
export interface Named {
  tables: string[]
  zones: string[]
}

/** The zones that the source which runs reads, by literal calls: they are frozen when a run starts. */
export function landingZonesOf(files: readonly DraftFile[], type: string, ref: PipelineRef): string[] {
  const source = files.find(({ name }) => name === sourceFileOf(type))
  return source === undefined ? [] : namedBy([source], ref).zones
}

export const namedBy = (files: readonly DraftFile[], ref: PipelineRef): Named =>
  namesOf(files.flatMap(callsOf), ref)

/** What files name by literal calls and not only in SQL comments, where a run needs it and reads nothing of it. */
export const readBy = (files: readonly DraftFile[], ref: PipelineRef): Named =>
  namesOf(
    files.flatMap(callsOf).filter(({ isCommented }) => !isCommented),
    ref,
  )

function namesOf(calls: readonly Call[], { namespace }: PipelineRef): Named {
  const tables = new Set<string>()
  const zones = new Set<string>()
  for (const call of calls) {
    try {
      if (call.function === 'ref') tables.add(tableKey(parseTableName(call.argument, namespace)))
      else zones.add(`${namespace}.${parseZoneName(call.argument)}`)
    } catch (error) {
      // A name that cannot exist is what validation, and the run, will say in their own words.
      if (!(error instanceof NameError)) throw error
    }
  }
  return { tables: [...tables], zones: [...zones] }
}

const callsOf = ({ name, text }: DraftFile): Call[] => {
  if (name.endsWith('.py')) return pythonReferences(text)
  return name.endsWith('.sql') ? sqlReferences(text).calls : []
}

/** Words looked up in one draft, and letters of one: names of tables are no longer. */
const WORDS_MAX = 5_000
const WORD = /[a-z0-9_-]{1,128}/gi

/** Words of the code that may be names of tables, in lower case. Which of them name one is for the parser of the code. */
export const wordsIn = (files: readonly DraftFile[]): string[] => {
  const words = new Set<string>()
  for (const { name, text } of files) {
    if (name === 'config.yaml') continue
    for (const [word] of text.matchAll(WORD)) {
      words.add(word.toLowerCase())
      if (words.size === WORDS_MAX) return [...words]
    }
  }
  return [...words]
}

/** Tables of the namespace with these names that exist, on main or as a pipeline that will make one, as `ns.layer.name`. */
export async function tablesCalled(
  db: Queryable,
  { namespace }: PipelineRef,
  names: readonly string[],
): Promise<string[]> {
  const rows = await db.execute<{ path: string }>(sql`
    select p.namespace || '.' || p.layer || '.' || p.name as path from pipeline p
    where p.deleted_at is null and p.namespace = ${namespace} and p.name = any(${textArray([...names])})
    union
    select e.namespace || '.' || e.layer || '.' || e.name from main_entry e
    where e.to_commit is null and e.namespace = ${namespace} and e.name = any(${textArray([...names])})
    order by path limit ${WORDS_MAX}`)
  return rows.map(({ path }) => path)
}

/** The table of a key: names hold no dots, and parsing has checked the layer. */
export function tableNamed(key: string): TableName {
  const [namespace = '', layer, name = ''] = key.split('.')
  return { namespace, layer: layer as TableName['layer'], name }
}

/** Those of the names that exist: as a table on main or a pipeline that will make one, or as a zone. */
export async function existing(db: Queryable, { tables, zones }: Named): Promise<Named> {
  const rows = await db.execute<{ kind: 'table' | 'zone'; path: string }>(sql`
    select 'table' as kind, path from unnest(${textArray(tables)}) as wanted(path)
    where exists (
        select 1 from pipeline p
        where p.deleted_at is null and p.namespace = split_part(path, '.', 1)
          and p.layer = split_part(path, '.', 2) and p.name = split_part(path, '.', 3))
      or exists (
        select 1 from main_entry e
        where e.to_commit is null and e.namespace = split_part(path, '.', 1)
          and e.layer = split_part(path, '.', 2) and e.name = split_part(path, '.', 3))
    union all
    select 'zone', path from unnest(${textArray(zones)}) as wanted(path)
    where exists (
      select 1 from landing_zone z
      where z.namespace = split_part(path, '.', 1) and z.name = split_part(path, '.', 2))`)
  const named = (kind: string) => rows.filter((row) => row.kind === kind).map(({ path }) => path)
  return { tables: named('table'), zones: named('zone') }
}

const textArray = (texts: string[]) => sql`${sql.param(texts)}::text[]`
