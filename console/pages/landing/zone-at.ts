import { api, ok } from '../../api/client.ts'
import { queryClient } from '../../api/queries.ts'

export interface ZoneAt {
  ns: string
  name: string
}

export const zoneAt = ({ ns, name }: ZoneAt) => api['landing-zones']({ ns })({ name })

export const zoneQuery = (at: ZoneAt) => () => ok(zoneAt(at).get())
export type Zone = Awaited<ReturnType<ReturnType<typeof zoneQuery>>>

/** The detected schema of the newest files, or of one file. */
export const schemaQuery = (at: ZoneAt, file: string) => () =>
  ok(zoneAt(at).schema.get({ query: file === '' ? {} : { file_id: file } }))
export type DetectedSchema = Awaited<ReturnType<ReturnType<typeof schemaQuery>>>

/** Loads everything about zones again. */
export const refreshZones = () => queryClient.invalidateQueries({ queryKey: ['zones'] })
