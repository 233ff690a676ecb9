// What is owned and shared, found by how requests name it.

import type { Resource, ResourceType } from '../../core/access.ts'
import { pipelineFolderOf, zoneFolderOf } from '../../core/paths.ts'
import type { PipelineRef } from '../../core/pipeline-ref.ts'
import { type LeftBehindDeps, makeLeftBehind } from './left-behind.ts'

export type Resources = ReturnType<typeof makeResources>

/** Kinds of ids of which each belongs to one pipeline. */
export type PipelinePart = 'pipeline' | 'run' | 'schedule' | 'trigger'

/** Of a namespace that nobody has created, or that is deleted while what it contains stays. */
const NO_ID = '00000000-0000-0000-0000-000000000000'

/** Each answers null when there is no such thing. */
export function makeResources({ sql, objects }: LeftBehindDeps) {
  /** A live one. */
  async function pipeline({ namespace, layer, name }: PipelineRef): Promise<Resource | null> {
    const [row] = await sql<Resource[]>`
      select 'pipeline' as type, id, namespace, owner from pipeline
      where namespace = ${namespace} and layer = ${layer} and name = ${name} and deleted_at is null`
    return row ?? null
  }

  async function zone({ namespace, name }: { namespace: string; name: string }): Promise<Resource | null> {
    const [row] = await sql<Resource[]>`
      select 'landing_zone' as type, id, namespace, owner from landing_zone
      where namespace = ${namespace} and name = ${name}`
    return row ?? null
  }

  async function namespace(name: string): Promise<Resource | null> {
    const [row] = await sql<Resource[]>`
      select 'namespace' as type, id, name as namespace, owner from namespace where name = ${name}`
    return row ?? null
  }

  /** What nothing else owns in a namespace, whether that exists or not. */
  const rest = async (name: string): Promise<Resource> =>
    (await namespace(name)) ?? { type: 'namespace', id: NO_ID, namespace: name, owner: null }

  /** Runs and histories of deleted pipelines are still theirs. */
  async function pipelineOf(part: PipelinePart, id: string): Promise<Resource | null> {
    const [row] = await sql<Resource[]>`
      select 'pipeline' as type, p.id, p.namespace, p.owner from pipeline p
      ${part === 'pipeline' ? sql`where p.id = ${id}` : sql`join ${sql(part)} part on part.pipeline_id = p.id where part.id = ${id}`}`
    return row ?? null
  }

  /** What can be shared: it exists, and is not deleted. */
  async function shared(type: ResourceType, id: string): Promise<Resource | null> {
    const column = type === 'namespace' ? sql`name` : sql`namespace`
    const [row] = await sql<Resource[]>`
      select ${type}::text as type, id, ${column} as namespace, owner from ${sql(type)}
      where id = ${id} ${type === 'pipeline' ? sql`and deleted_at is null` : sql``}`
    return row ?? null
  }

  return {
    ...makeLeftBehind({ sql, objects }),
    pipeline,
    zone,
    namespace,
    pipelineOf,
    shared,
    /** A table is its pipeline's; one that no pipeline makes any more is its namespace's. */
    table: async (ref: PipelineRef): Promise<Resource> =>
      (await pipeline(ref)) ?? (await rest(ref.namespace)),
    /** A file is the pipeline's or the zone's in whose folder it is, else its namespace's. */
    async file(path: string): Promise<Resource> {
      const folder = pipelineFolderOf(path)
      const zoneFolder = zoneFolderOf(path)
      const found = folder !== null ? await pipeline(folder) : zoneFolder && (await zone(zoneFolder))
      return found ?? (await rest(path.slice(0, path.indexOf('/'))))
    },
  }
}
