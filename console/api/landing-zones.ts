import { keepPreviousData, queryOptions } from '@tanstack/react-query'
import { api, ok } from './client.ts'
import { ApiError } from './errors.ts'
import { boundsOf } from './paging.ts'
import { type DataOf, LIVE_MS, refresh, SLOW_MS } from './queries.ts'
import { path } from './request.ts'

const KEY = ['zones']

/** Files offered for a look at one file: the newest ones. */
const FILES_OFFERED = '50'
/** Tries to detect a schema while the service fails. */
const DETECTIONS_MAX = 3

export interface ZoneAt {
  ns: string
  name: string
}

const zoneAt = ({ ns, name }: ZoneAt) => api['landing-zones']({ ns })({ name })
const keyOf = ({ ns, name }: ZoneAt) => [...KEY, ns, name]

export const zoneListQuery = () =>
  queryOptions({
    queryKey: [...KEY, 'list'],
    queryFn: () => ok(api['landing-zones'].get({ query: {} })),
    refetchInterval: SLOW_MS,
  })

/** All zones, as suggestions and completions. */
export const zoneNamesQuery = () =>
  queryOptions({
    queryKey: [...KEY, 'names'],
    queryFn: () => ok(api['landing-zones'].get({ query: {} })),
  })

export const zoneQuery = (at: ZoneAt) =>
  queryOptions({
    queryKey: keyOf(at),
    queryFn: () => ok(zoneAt(at).get()),
    refetchInterval: LIVE_MS,
  })
export type Zone = DataOf<typeof zoneQuery>

/** The files of a zone, read again when their number changes. */
export const zoneFilesQuery = (at: ZoneAt, total: number, offset: string | undefined) => {
  const query = boundsOf(offset)
  return queryOptions({
    queryKey: [...keyOf(at), 'files', query, total],
    queryFn: () => ok(zoneAt(at).files.get({ query })),
    placeholderData: keepPreviousData,
  })
}
export type ZoneFile = DataOf<typeof zoneFilesQuery>['files'][number]

export const newestFilesQuery = (at: ZoneAt, total: number) =>
  queryOptions({
    queryKey: [...keyOf(at), 'files', 'newest', total],
    queryFn: () => ok(zoneAt(at).files.get({ query: { limit: FILES_OFFERED } })),
  })

/** The detected schema of the newest files, or of one file. */
export const detectedSchemaQuery = (at: ZoneAt, file: string, fileCount: number) => {
  // New files are detected as soon as the number of files changes.
  const key = [...keyOf(at), 'schema', file, file === '' ? fileCount : 0]
  return queryOptions({
    queryKey: key,
    queryFn: () => ok(zoneAt(at).schema.get({ query: file === '' ? {} : { file_id: file } })),
    placeholderData: (before, earlier) => (earlier?.queryKey.at(-2) === file ? before : undefined),
    retry: (tries, error) => tries < DETECTIONS_MAX && error instanceof ApiError && error.status >= 500,
  })
}
export type DetectedSchema = DataOf<typeof detectedSchemaQuery>

export const samplesQuery = (at: ZoneAt) =>
  queryOptions({
    queryKey: [...keyOf(at), 'samples'],
    queryFn: () => ok(zoneAt(at).samples.get({ query: {} })),
  })

/** Which run took which file; of all files, or of one. */
export const readsQuery = (at: ZoneAt, file: string, offset: string | undefined) => {
  const query = { ...boundsOf(offset), ...(file && { file_id: file }) }
  return queryOptions({
    queryKey: [...keyOf(at), 'reads', query],
    queryFn: () => ok(zoneAt(at).reads.get({ query })),
    placeholderData: keepPreviousData,
    refetchInterval: SLOW_MS,
  })
}
export type Read = DataOf<typeof readsQuery>['reads'][number]

export const lifecycleQuery = (at: ZoneAt) =>
  queryOptions({
    queryKey: [...keyOf(at), 'lifecycle'],
    queryFn: () => ok(zoneAt(at).lifecycle.get()),
  })
export type Lifecycle = DataOf<typeof lifecycleQuery>

/** The address at which a zone accepts uploads. */
export const uploadPathOf = ({ ns, name }: ZoneAt, part: 'files' | 'samples') =>
  path`landing-zones/${ns}/${name}/${part}`

/** Reads everything about zones again. */
export const zonesChanged = () => refresh(KEY)

export async function createZone(body: { namespace: string; name: string; description: string }) {
  const made = await ok(api['landing-zones'].post(body))
  await zonesChanged()
  return made
}

type Changes = Parameters<ReturnType<typeof zoneAt>['put']>[0]

export const changeZone = (at: ZoneAt, changes: Changes) => ok(zoneAt(at).put(changes)).then(zonesChanged)

export const changeLifecycle = (at: ZoneAt, lifecycle: Lifecycle) =>
  ok(zoneAt(at).lifecycle.put(lifecycle)).then(zonesChanged)

export const deleteZone = (at: ZoneAt) => ok(zoneAt(at).delete()).then(zonesChanged)

/** No run reads a file in quarantine. */
export const quarantineFile = (at: ZoneAt, id: string) =>
  ok(zoneAt(at).files({ id }).quarantine.post()).then(zonesChanged)

export const restoreFile = (at: ZoneAt, id: string) =>
  ok(zoneAt(at).files({ id }).quarantine.delete()).then(zonesChanged)

export const deleteFile = (at: ZoneAt, id: string) => ok(zoneAt(at).files({ id }).delete()).then(zonesChanged)

export const deleteSample = (at: ZoneAt, filename: string) =>
  ok(zoneAt(at).samples({ filename }).delete()).then(zonesChanged)
