// Finds owned and shared resources by the names in requests.
import { computed, pick, select } from '../../../drizzle/rows.ts'
import { landingZones } from '../../../drizzle/schema/landing.ts'
import { namespaces } from '../../../drizzle/schema/namespace.ts'
import { pipelines } from '../../../drizzle/schema/pipeline.ts'
import type { Resource, ResourceType } from '../../core/access.ts'
import type { PipelineRef } from '../../core/pipeline-ref.ts'
import { pipelineFolderOf, zoneFolderOf } from '../../wire/paths.ts'
import { type LeftoversDeps, makeLeftovers } from './leftovers.ts'

export type Resources = ReturnType<typeof makeResources>

/** Kinds of ids that belong to exactly one pipeline. */
export type PipelinePart = 'pipeline' | 'run' | 'schedule' | 'trigger'

/** The id of a namespace without a row: never created, or deleted while its contents remain. */
const NO_ID = '00000000-0000-0000-0000-000000000000'

const typed = <T extends ResourceType>(type: T) => computed<T>(`'${type}'`)
const COLUMNS = {
  pipeline: { type: typed('pipeline'), ...pick(pipelines, 'id', 'namespace', 'owner') },
  landing_zone: { type: typed('landing_zone'), ...pick(landingZones, 'id', 'namespace', 'owner') },
  namespace: { type: typed('namespace'), namespace: namespaces.name, ...pick(namespaces, 'id', 'owner') },
}

/** Each function returns null when the resource does not exist. */
export function makeResources({ sql, objects }: LeftoversDeps) {
  /** Finds a pipeline that is not deleted. */
  async function pipeline({ namespace, layer, name }: PipelineRef): Promise<Resource | null> {
    const [row] = await select(sql, COLUMNS.pipeline)`
      from pipeline where namespace = ${namespace} and layer = ${layer} and name = ${name} and deleted_at is null`
    return row ?? null
  }

  async function zone({ namespace, name }: { namespace: string; name: string }): Promise<Resource | null> {
    const [row] = await select(sql, COLUMNS.landing_zone)`
      from landing_zone where namespace = ${namespace} and name = ${name}`
    return row ?? null
  }

  async function namespace(name: string): Promise<Resource | null> {
    const [row] = await select(sql, COLUMNS.namespace)`from namespace where name = ${name}`
    return row ?? null
  }

  /** The namespace of a table or file that no other resource owns. Returned even if the namespace has no row. */
  const namespaceAsOwner = async (name: string): Promise<Resource> =>
    (await namespace(name)) ?? { type: 'namespace', id: NO_ID, namespace: name, owner: null }

  /** Includes deleted pipelines: their runs and histories still belong to them. */
  async function pipelineOf(part: PipelinePart, id: string): Promise<Resource | null> {
    const [row] = await select(sql, COLUMNS.pipeline)`
      from pipeline
      ${part === 'pipeline' ? sql`` : sql`join ${sql(part)} part on part.pipeline_id = pipeline.id`}
      where ${part === 'pipeline' ? sql`pipeline` : sql`part`}.id = ${id}`
    return row ?? null
  }

  /** Finds a resource that can be shared: it exists and is not deleted. */
  async function shared(type: ResourceType, id: string): Promise<Resource | null> {
    const [row] = await select(sql, COLUMNS[type])`
      from ${sql(type)} where id = ${id} ${type === 'pipeline' ? sql`and deleted_at is null` : sql``}`
    return row ?? null
  }

  return {
    ...makeLeftovers({ sql, objects }),
    pipeline,
    zone,
    namespace,
    pipelineOf,
    shared,
    /** A table belongs to its pipeline, or to its namespace when it has no live pipeline. */
    table: async (ref: PipelineRef): Promise<Resource> =>
      (await pipeline(ref)) ?? (await namespaceAsOwner(ref.namespace)),
    /** A file belongs to the pipeline or zone of its folder, otherwise to its namespace. */
    async file(path: string): Promise<Resource> {
      const folder = pipelineFolderOf(path)
      const zoneFolder = zoneFolderOf(path)
      const found = folder !== null ? await pipeline(folder) : zoneFolder && (await zone(zoneFolder))
      return found ?? (await namespaceAsOwner(path.slice(0, path.indexOf('/'))))
    },
  }
}
