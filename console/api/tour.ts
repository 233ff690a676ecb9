// The tour has no memory of its own: its progress is what the service has.
import { queryOptions } from '@tanstack/react-query'
import { api, ok } from './client.ts'
import { readFile, writeFile } from './files.ts'
import { uploadPathOf } from './landing-zones.ts'
import { folderOf, pipelineAt } from './pipelines.ts'
import { refresh, SLOW_MS } from './queries.ts'
import { isOver, type Run, readRun } from './runs.ts'
import { BRONZE, FILE, FILE_NAME, GOLD, RESULT, type SamplePipeline, ZONE } from './tour-sample.ts'
import { upload } from './uploads.ts'

const POLL_MS = 600
/** The namespace of the tour, unless the address has another one. */
export const TOUR = 'welcome'

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

export const progressQuery = (namespace = TOUR) =>
  queryOptions({
    queryKey: ['welcome', namespace],
    queryFn: () => readProgress(namespace),
    refetchInterval: ({ state }) => (state.data && isBusy(state.data) ? POLL_MS : SLOW_MS),
  })

/** The rows of the gold table after a run. */
export const goldRowsQuery = (namespace: string, run: string) =>
  queryOptions({
    queryKey: ['welcome', 'rows', namespace, run],
    queryFn: () => ok(api.query.post({ sql: RESULT, namespace })),
  })

/** The present state of everything that the tour makes in a namespace. Lists answer, whatever exists. */
async function readProgress(namespace: string): Promise<Progress> {
  const query = { namespace }
  const [{ zones }, { pipelines }] = await Promise.all([
    ok(api['landing-zones'].get({ query })),
    ok(api.pipelines.get({ query })),
  ])
  const madeOf = async ({ layer, name }: SamplePipeline): Promise<Made | null> => {
    const pipeline = pipelines.find((each) => each.layer === layer && each.name === name)
    if (pipeline === undefined) return null
    const { last_run: last } = pipeline
    return { run: last === null ? null : await readRun(last.run_id) }
  }
  const [bronze, gold] = await Promise.all([madeOf(BRONZE), madeOf(GOLD)])
  return { files: zones.find(({ name }) => name === ZONE)?.file_count ?? 0, bronze, gold }
}

export const isRunning = (made: Made | null) => made?.run != null && !isOver(made.run)
export const succeeded = (made: Made | null) => made?.run?.status === 'success'
/** Whether a run is on its way. */
const isBusy = ({ bronze, gold }: Progress) => [bronze, gold].some(isRunning)

/** The number of the step that is next, from 1. After the last step, it is 5. */
export function stepOf({ files, bronze, gold }: Progress): number {
  if (succeeded(gold)) return 5
  if (gold?.run != null && !isRunning(gold)) return 4
  if (succeeded(bronze)) return 3
  return files > 0 || bronze !== null ? 2 : 1
}

const AT_MOST = { limit: '200' }

/** Everything may have changed. */
export const tourChanged = () => refresh([])

/** Uploads the file of the tour. Throws ApiError. */
export async function dropFile(namespace: string): Promise<void> {
  await makeZone(namespace)
  const file = new File([FILE], FILE_NAME, { type: 'text/csv' })
  const path = uploadPathOf({ ns: namespace, name: ZONE }, 'files')
  await upload(path, file, { onProgress: () => {}, signal: new AbortController().signal })
}

/** Makes the namespace and the landing zone, unless they exist. */
async function makeZone(namespace: string): Promise<void> {
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
  const { files, bronze, gold } = await readProgress(namespace)
  if (gold !== null) await ok(pipelineAt({ ns: namespace, layer: GOLD.layer, name: GOLD.name }).delete())
  if (bronze !== null)
    await ok(pipelineAt({ ns: namespace, layer: BRONZE.layer, name: BRONZE.name }).delete())
  if (files > 0) await ok(api['landing-zones']({ ns: namespace })({ name: ZONE }).delete())
  await tourChanged()
}
