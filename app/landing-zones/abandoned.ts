// What an upload leaves behind when its process is killed between the object and its row.
import type { Sql } from '../../drizzle/client.ts'
import type { ObjectStore } from '../objects/port.ts'
import type { AbandonedUpload } from './arrivals.ts'

/** The effect `abandonedUpload`: removes the versions at the path that no file of the zone has. Any number of times. */
export const makeClearUp =
  ({ sql, objects }: { sql: Sql; objects: ObjectStore }) =>
  async ({ namespace, name, filename, path }: AbandonedUpload): Promise<void> => {
    const { versions } = await objects.versions(path)
    const there = versions.filter(({ key }) => key === path)
    if (there.length === 0) return
    const files = await sql<{ versionId: string }[]>`
      select f.version_id as "versionId" from landing_file f join landing_zone z on z.id = f.zone_id
      where z.namespace = ${namespace} and z.name = ${name} and f.filename = ${filename} and f.path = ${path}`
    const recorded = new Set(files.map(({ versionId }) => versionId))
    for (const { versionId } of there)
      if (!recorded.has(versionId)) await objects.deleteVersion(path, versionId)
  }
