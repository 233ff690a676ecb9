// The tour has no memory of its own: its progress is what the service has.
import { api, ok } from '../../api/client.ts'
import { readFile, writeFile } from '../pipelines/files.ts'
import { folderOf, pipelineAt } from '../pipelines/named.ts'
import { type Run, runQuery } from '../runs/run-query.ts'
import { BRONZE, GOLD, type SamplePipeline, ZONE } from './sample.ts'

/** A pipeline of the tour. */
export interface Made {
  /** The newest run; null before the first. */
  run: Run | null
}

export interface Progress {
  /** Files in the landing zone. */
  files: number
  bronze: Made | null
  gold: Made | null
}

/** The present state of everything that the tour makes in a namespace. Lists answer, whatever exists. */
export const progressQuery = (namespace: string) => async (): Promise<Progress> => {
  const query = { namespace }
  const [{ zones }, { pipelines }] = await Promise.all([
    ok(api['landing-zones'].get({ query })),
    ok(api.pipelines.get({ query })),
  ])
  const madeOf = async ({ layer, name }: SamplePipeline): Promise<Made | null> => {
    const pipeline = pipelines.find((each) => each.layer === layer && each.name === name)
    if (pipeline === undefined) return null
    const { last_run: last } = pipeline
    return { run: last === null ? null : await runQuery(last.run_id)() }
  }
  const [bronze, gold] = await Promise.all([madeOf(BRONZE), madeOf(GOLD)])
  return { files: zones.find(({ name }) => name === ZONE)?.file_count ?? 0, bronze, gold }
}

const isOver = (made: Made | null) => made?.run != null && !['pending', 'running'].includes(made.run.status)
export const succeeded = (made: Made | null) => made?.run?.status === 'success'
/** Whether a run is on its way. */
export const isBusy = ({ bronze, gold }: Progress) =>
  [bronze, gold].some((made) => made?.run != null && !isOver(made))

/** The number of the step that is next, from 1. After the last step, it is 5. */
export function stepOf({ files, bronze, gold }: Progress): number {
  if (succeeded(gold)) return 5
  if (isOver(gold)) return 4
  if (succeeded(bronze)) return 3
  return files > 0 || bronze !== null ? 2 : 1
}

const AT_MOST = { limit: '200' }

/** Makes the namespace and the landing zone, unless they exist. Throws ApiError. */
export async function makeZone(namespace: string): Promise<void> {
  const { namespaces } = await ok(api.namespaces.get({ query: {} }))
  if (!namespaces.some(({ name }) => name === namespace)) await ok(api.namespaces.post({ name: namespace }))
  const { zones } = await ok(api['landing-zones'].get({ query: { namespace } }))
  if (zones.some(({ name }) => name === ZONE)) return
  await ok(api['landing-zones'].post({ namespace, name: ZONE, description: 'Orders of the tour' }))
}

/** Writes, publishes and runs a pipeline of the tour. Throws ApiError. */
export async function makePipeline(
  namespace: string,
  { layer, name, source, test }: SamplePipeline,
): Promise<void> {
  const at = { ns: namespace, layer, name }
  const { pipelines } = await ok(api.pipelines.get({ query: { namespace, layer, ...AT_MOST } }))
  if (!pipelines.some((each) => each.name === name))
    await ok(api.pipelines.post({ namespace, layer, name, type: 'sql' }))
  const path = `${folderOf(at)}pipeline.sql`
  const { etag } = await readFile(path)
  await writeFile(path, { content: source, etag })
  const { tests } = await ok(pipelineAt(at).tests.get({ query: {} }))
  if (test !== undefined && tests.length === 0) await ok(pipelineAt(at).tests.post(test))
  await ok(pipelineAt(at).publish.post({ message: 'The tour' }, { headers: {} }))
  await ok(api.runs.post({ namespace, layer, pipeline: name, trigger: 'manual' }, { headers: {} }))
}

/** Removes the pipelines and the landing zone. The tables stay until the tour makes them again. */
export async function startOver(namespace: string): Promise<void> {
  const { files, bronze, gold } = await progressQuery(namespace)()
  if (gold !== null) await ok(pipelineAt({ ns: namespace, layer: GOLD.layer, name: GOLD.name }).delete())
  if (bronze !== null)
    await ok(pipelineAt({ ns: namespace, layer: BRONZE.layer, name: BRONZE.name }).delete())
  if (files > 0) await ok(api['landing-zones']({ ns: namespace })({ name: ZONE }).delete())
}
