import type { Sql } from '../../drizzle/client.ts'
import { parseConfig } from '../../lake/pipeline/config.ts'
import { type PipelineRef, prefixOf } from '../core/pipeline-ref.ts'
import type { ObjectStore } from '../objects/port.ts'
import { sourceFileOf } from './draft-files.ts'
import { publishedPipeline } from './store/pipelines.ts'

/**
 * The columns that identify a row of the pipeline's table: `unique_key` of the published version, or of the draft while nothing
 * is published. Empty without a pipeline or a key.
 */
export async function uniqueKeyOf(
  { sql, objects }: { sql: Sql; objects: ObjectStore },
  ref: PipelineRef,
): Promise<readonly string[]> {
  const published = await publishedPipeline(sql, ref)
  if (published === null) return []
  const read = async (path: string) => {
    const key = `${prefixOf(ref)}${path}`
    const version = published.pins === null ? undefined : published.pins[key]
    if (published.pins !== null && version === undefined) return undefined
    const found = await objects.text(key, version)
    return found === null ? undefined : { path, text: found.text }
  }
  const [config, source] = await Promise.all([read('config.yaml'), read(sourceFileOf(published.type))])
  return parseConfig({ ...(config && { config }), ...(source && { source }) }).config.uniqueKey
}
