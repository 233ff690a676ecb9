import { link, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { fromJsonString } from '@bufbuild/protobuf'
import type { TableMetadata } from '../../lake/iceberg/metadata.ts'
import {
  NameError,
  parseTableName,
  parseZoneName,
  type TableName,
  tableKey,
} from '../../lake/pipeline/names.ts'
import type { Asked, TemplateResolver } from '../../lake/pipeline/template.ts'
import {
  type LakeAccess,
  type LandingFile,
  type LandingInput,
  LandingInputSchema,
} from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { accepted, HttpFailure, patiently } from '../http.ts'
import { type Gateway, openObject } from '../lake-access.ts'
import { type LakeSession, type TableInput, tableExpression } from './lake-session.ts'

// What templates ask for, found in the lake: tables of the branch, and landing files as they were frozen.

export interface Landing {
  zone: string
  /** What `landing_zone()` gives: a path text that covers exactly these files. */
  pathText: string
  files: LandingFile[]
}

export class Inputs implements TemplateResolver {
  /** By key; null: there is no such table. */
  readonly tables = new Map<string, TableInput | null>()
  readonly landings = new Map<string, Landing | null>()

  constructor(readonly namespace: string) {}

  /** The tables that are there: all, or those that these templates name, and `also`. */
  found(asked?: readonly Asked[], also?: TableName): TableInput[] {
    const all = [...this.tables.values()].filter((table) => table !== null)
    if (asked === undefined) return all
    const keys = new Set(tablesAsked(asked, this.namespace).map(tableKey))
    if (also !== undefined) keys.add(tableKey(also))
    return all.filter(({ name }) => keys.has(tableKey(name)))
  }

  ref(name: string): string {
    const table = parseTableName(name, this.namespace)
    if (!this.tables.get(tableKey(table))) throw new Error(`table ${tableKey(table)} does not exist`)
    return tableExpression(table)
  }

  landingZone(name: string): string {
    const zone = parseZoneName(name)
    const landing = this.landings.get(zone)
    if (!landing) throw new Error(`landing zone ${zone} does not exist in ${this.namespace}`)
    if (landing.files.length === 0) throw new Error(`landing zone ${zone} has no files`)
    return landing.pathText
  }
}

/** The tables that templates name, without repeats. What is no name is left to the rendering, which knows its line. */
export function tablesAsked(asked: readonly Asked[], namespace: string): TableName[] {
  const tables = asked
    .flatMap(({ refs }) => refs)
    .flatMap((name) => orNothing(() => parseTableName(name, namespace)))
  return [...new Map(tables.map((table) => [tableKey(table), table])).values()]
}

/** The zones that templates name, without repeats. */
export const zonesAsked = (asked: readonly Asked[]): string[] => [
  ...new Set(asked.flatMap(({ zones }) => zones).flatMap((name) => orNothing(() => parseZoneName(name)))),
]

function orNothing<T>(parse: () => T): T[] {
  try {
    return [parse()]
  } catch (error) {
    if (error instanceof NameError) return []
    throw error
  }
}

/** Opens tables of the branch, at once. `known` has been loaded already. */
export async function openTables(
  inputs: Inputs,
  tables: readonly TableName[],
  lake: LakeSession,
  known: ReadonlyMap<string, TableMetadata | null>,
): Promise<void> {
  await Promise.all(
    tables.map(async (table) => {
      const key = tableKey(table)
      const metadata = known.has(key) ? known.get(key) : await lake.catalog.load(table)
      inputs.tables.set(key, metadata ? await lake.open(table, metadata) : null)
    }),
  )
}

export interface LandingOptions {
  /** The zones frozen at the attempt's start. Others are frozen when they are asked for. */
  frozen: readonly LandingInput[]
  access: LakeAccess
  gateway: Gateway
  /** Each zone becomes a directory in it. */
  directory: string
}

/** Brings the landing files of zones into directories of their own. */
export async function openLandings(
  inputs: Inputs,
  zones: readonly string[],
  options: LandingOptions,
): Promise<void> {
  const { namespace } = inputs
  await Promise.all(
    zones.map(async (zone) => {
      const frozen =
        options.frozen.find((input) => input.namespace === namespace && input.zone === zone) ??
        (await freeze(namespace, zone, options))
      if (frozen === null) {
        inputs.landings.set(zone, null)
        return
      }
      const directory = join(options.directory, zone)
      await mkdir(directory, { recursive: true })
      for (let from = 0; from < frozen.files.length; from += DOWNLOADS_AT_ONCE)
        await Promise.all(
          frozen.files
            .slice(from, from + DOWNLOADS_AT_ONCE)
            .map((file) => bring(file, join(directory, localName(file)), options.gateway)),
        )
      inputs.landings.set(zone, { zone, pathText: join(directory, '*'), files: frozen.files })
    }),
  )
}

const DOWNLOADS_AT_ONCE = 8

/** The zone's files as of the attempt's start; null: there is no such zone. */
async function freeze(
  namespace: string,
  zone: string,
  { access, gateway }: LandingOptions,
): Promise<LandingInput | null> {
  const url = `${access.catalogUrl}/sluice/v1/landing/${namespace}/${zone}`
  try {
    const text = await patiently(
      async (signal) => {
        const headers = { authorization: `Bearer ${access.token}` }
        const response = await accepted(await fetch(url, { headers, signal }), `reading landing zone ${zone}`)
        return response.text()
      },
      { signal: gateway.signal },
    )
    return fromJsonString(LandingInputSchema, text)
  } catch (error) {
    if (error instanceof HttpFailure && error.status === 404) return null
    throw error
  }
}

/** A hard link to the cached copy: the file stays as long as the attempt's directory does. */
async function bring({ object }: LandingFile, path: string, gateway: Gateway): Promise<void> {
  if (object === undefined) throw new Error('a landing file without an object')
  const { path: cached, release } = await openObject(
    gateway,
    object.path,
    object.versionId,
    Number(object.sizeBytes),
  )
  try {
    await link(cached, path)
  } finally {
    release()
  }
}

const NAME_BYTES_MAX = 255

/** Its own name, so that queries which show it make sense, unless no file here can have it. */
function localName({ id, filename }: LandingFile): string {
  const isPlain =
    filename !== '' && !/^\.|[/\\\p{Cc}]/u.test(filename) && Buffer.byteLength(filename) <= NAME_BYTES_MAX
  return isPlain ? filename : id
}
