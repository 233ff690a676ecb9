import { api, ok } from '../../api/client.ts'
import { queryClient } from '../../api/queries.ts'
import { performing } from '../../design/toasts.tsx'

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

/** Puts a file in quarantine, and says so. */
export const quarantine = (at: ZoneAt, { id, filename }: { id: string; filename: string }) =>
  performing(
    ok(zoneAt(at).files({ id }).quarantine.post()).then(refreshZones),
    `${filename} is in quarantine: no run reads it`,
  )
