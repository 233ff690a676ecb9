// Visibility of files. A file in the folder of a pipeline or zone follows that resource; other files follow their namespace.
import type { Sql } from '../../drizzle/client.ts'
import { seesEverything, type Visible } from '../core/access.ts'
import { pipelineFolderOf } from '../wire/paths.ts'
import { pipelinesIn, zonesIn } from './store.ts'

const ZONE = /^[^/]+\/landing\/([^/]+)\/./

/**
 * Returns a function that tells whether a path of the namespace is visible. Owners of folders are loaded once, and not at all
 * with full visibility.
 */
export async function visiblePaths(
  sql: Sql,
  namespace: string,
  visible: Visible,
): Promise<(path: string) => boolean> {
  if (seesEverything(visible)) return () => true
  const [pipelines, zones] = await Promise.all([pipelinesIn(sql, namespace), zonesIn(sql, namespace)])
  const visibilityBy = (ids: Visible['pipelines']) => {
    const visibleIds = ids === 'all' ? null : new Set(ids)
    return (id: string) => visibleIds === null || visibleIds.has(id)
  }
  const isPipelineVisible = visibilityBy(visible.pipelines)
  const isZoneVisible = visibilityBy(visible.zones)
  const ofPipelines = new Map(
    pipelines.map(({ id, layer, name }) => [`${layer}/${name}`, isPipelineVisible(id)]),
  )
  const ofZones = new Map(zones.map(({ id, name }) => [name, isZoneVisible(id)]))
  const isNamespaceVisible = visible.namespaces === 'all' || visible.namespaces.includes(namespace)

  return (path) => {
    const folder = pipelineFolderOf(path)
    const zone = ZONE.exec(path)?.[1]
    const owned =
      folder === null
        ? zone === undefined
          ? undefined
          : ofZones.get(zone)
        : ofPipelines.get(`${folder.layer}/${folder.name}`)
    return owned ?? isNamespaceVisible
  }
}
