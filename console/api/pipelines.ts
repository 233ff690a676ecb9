import { keepPreviousData, queryOptions } from '@tanstack/react-query'
import { layerOf } from '../../ground/names.ts'
import { api, given, ok } from './client.ts'
import { readFile } from './files.ts'
import { boundsOf } from './paging.ts'
import { type DataOf, LIVE_MS, refresh, SLOW_MS } from './queries.ts'

const KEY = ['pipelines']

const SUGGESTED = '50'
const PREVIEW_ROWS = '100'

export interface Named {
  ns: string
  layer: string
  name: string
}

export const pipelineAt = ({ ns, layer, name }: Named) => api.pipelines({ ns })({ layer })({ name })
const keyOf = ({ ns, layer, name }: Named) => [...KEY, ns, layer, name]

/** The states by which the API filters pipelines. */
const STATES = ['published', 'unpublished', 'changed', 'failed', 'failing_tests'] as const
export type PipelineState = (typeof STATES)[number]

/** The parameter `create` of an address that opens the form of a pipeline without an input. No input has this name. */
export const NO_SOURCE = '-'

/** The filters of the list as the API has them. Unknown values are no filter. */
export function pipelineFilterOf(filters: {
  search?: string
  namespace?: string
  layer?: string
  tag?: string
  state?: string
}) {
  const { search, namespace, tag } = filters
  const layer = layerOf(filters.layer)
  const state = STATES.find((each) => each === filters.state)
  return given({ search, namespace, layer, tag, state })
}

export const pipelineListQuery = (filters: Parameters<typeof pipelineFilterOf>[0] & { offset?: string }) => {
  const query = { ...pipelineFilterOf(filters), ...boundsOf(filters.offset) }
  return queryOptions({
    queryKey: [...KEY, 'list', query],
    queryFn: () => ok(api.pipelines.get({ query })),
    refetchInterval: SLOW_MS,
    placeholderData: keepPreviousData,
  })
}
export type ListedPipeline = DataOf<typeof pipelineListQuery>['pipelines'][number]

/** Pipelines with a text in their bare name, for fields. */
export const suggestedPipelinesQuery = (search: string) =>
  queryOptions({
    queryKey: [...KEY, 'suggested', search],
    queryFn: () => ok(api.pipelines.get({ query: { ...given({ search }), limit: SUGGESTED } })),
    placeholderData: keepPreviousData,
  })

/** Pipelines with a text in their bare name, for the palette. */
export const foundPipelinesQuery = (text: string, limit: number) =>
  queryOptions({
    queryKey: ['palette', text],
    queryFn: () =>
      ok(api.pipelines.get({ query: { search: text.split('.').at(-1) ?? '', limit: String(limit) } })),
    enabled: text !== '',
    placeholderData: keepPreviousData,
  })

export const pipelineQuery = (at: Named) =>
  queryOptions({
    queryKey: keyOf(at),
    queryFn: () => ok(pipelineAt(at).get()),
    refetchInterval: LIVE_MS,
  })
export type Pipeline = DataOf<typeof pipelineQuery>

/** The folder of a pipeline's files, for `/files`. */
export const folderOf = ({ ns, layer, name }: Named) => `${ns}/pipelines/${layer}/${name}/`
export const sourceOf = ({ type }: Pick<Pipeline, 'type'>) =>
  type === 'python' ? 'pipeline.py' : 'pipeline.sql'

export const versionsQuery = (at: Named, published: number | null) =>
  queryOptions({
    queryKey: [...keyOf(at), 'versions', published],
    queryFn: () => ok(pipelineAt(at).versions.get({ query: {} })),
  })

/** The text that a file has in a published version. Empty: the version has no such file. */
export const publishedTextQuery = (at: Named, number: number | null, path: string) =>
  queryOptions({
    queryKey: [...KEY, at, 'published', number, path],
    queryFn: async () => {
      if (number === null) return ''
      const version = await ok(pipelineAt(at).versions({ number }).get())
      const id = (version.published_versions as Record<string, string>)[path]
      return id === undefined ? '' : (await readFile(path, id)).content
    },
  })

/** Executes a text of the source. Nothing is written. */
export const previewDraft = (at: Named, code: string, signal: AbortSignal) =>
  ok(pipelineAt(at).preview.post({ code }, { query: { limit: PREVIEW_ROWS }, fetch: { signal } }))
export type PreviewResult = Awaited<ReturnType<typeof previewDraft>>

/** Reads everything about pipelines again. */
export const pipelinesChanged = () => refresh(KEY)

export async function createPipeline(body: Parameters<typeof api.pipelines.post>[0]) {
  const made = await ok(api.pipelines.post(body))
  await pipelinesChanged()
  return made
}

export async function publishDraft(at: Named, message: string) {
  await ok(pipelineAt(at).publish.post(message === '' ? {} : { message }, { headers: {} }))
  await pipelinesChanged()
}

export async function rollBack(at: Named, body: { version: number; message?: string; data?: boolean }) {
  await ok(pipelineAt(at).rollback.post(body))
  await pipelinesChanged()
}

/** `leave` leaves the page of the pipeline, which would otherwise be read once more. */
export async function deletePipeline(at: Named, leave: () => Promise<unknown>) {
  await ok(pipelineAt(at).delete())
  await leave()
  await pipelinesChanged()
}
