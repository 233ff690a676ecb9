import { quarantineFile, type ZoneAt } from '../../api/landing-zones.ts'
import { performing } from '../../design/toasts.tsx'

/** Puts a file in quarantine, and says so. */
export const quarantine = (at: ZoneAt, { id, filename }: { id: string; filename: string }) =>
  performing(quarantineFile(at, id), `${filename} is in quarantine: no run reads it`)
