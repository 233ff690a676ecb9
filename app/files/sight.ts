// Whose files a caller sees: those of a pipeline and of a zone follow it, all others their namespace.
import type { Sql } from '../../drizzle/client.ts'
import type { Visible } from '../core/access.ts'
import { seesEverything } from '../core/access.ts'
import { pipelineFolderOf } from '../core/paths.ts'
import { pipelinesIn, zonesIn } from './store.ts'

const ZONE = /^[^/]+\/landing\/([^/]+)\/./

/** Whether a path of one namespace is seen; what a folder is of is asked once, and not at all where everything is seen. */
export async function pathsSeen(
  sql: Sql,
  namespace: string,
  visible: Visible,
): Promise<(path: string) => boolean> {
  if (seesEverything(visible)) return () => true
  const [pipelines, zones] = await Promise.all([pipelinesIn(sql, namespace), zonesIn(sql, namespace)])
  const isSeen = (ids: Visible['pipelines']) => {
    const known = ids === 'all' ? null : new Set(ids)
    return (id: string) => known === null || known.has(id)
  }
  const isPipelineSeen = isSeen(visible.pipelines)
  const isZoneSeen = isSeen(visible.zones)
  const ofPipelines = new Map(
    pipelines.map(({ id, layer, name }) => [`${layer}/${name}`, isPipelineSeen(id)]),
  )
  const ofZones = new Map(zones.map(({ id, name }) => [name, isZoneSeen(id)]))
  const ofRest = visible.namespaces === 'all' || visible.namespaces.includes(namespace)

  return (path) => {
    const folder = pipelineFolderOf(path)
    const zone = ZONE.exec(path)?.[1]
    const owned =
      folder === null
        ? zone === undefined
          ? undefined
          : ofZones.get(zone)
        : ofPipelines.get(`${folder.layer}/${folder.name}`)
    return owned ?? ofRest
  }
}
