// An upload is announced where triggers hear it: a row in the transaction of the file's own, so that none is ever missed.
import type { Sql, SqlTx } from '../../drizzle/client.ts'
import { clientTrace } from '../../proto/trace.ts'
import type { ZoneRef } from '../core/zone-ref.ts'
import type { Occurrence } from '../triggers/at-once.ts'
import { zoneSource } from '../triggers/config.ts'

/** What triggers hear of an upload. */
export const uploadOf = (ref: ZoneRef, { id, original }: { id: string; original: string }): Occurrence => ({
  kind: 'fileUploaded',
  source: zoneSource(ref),
  subject: id,
  filename: original,
  ...clientTrace(),
})

/** For a statement with a CTE `file (id, original_name)`, of one row or none: a row for each event that some trigger will hear. */
export function announced(sql: Sql | SqlTx, ref: ZoneRef) {
  const source = zoneSource(ref)
  const { traceparent, tracestate } = clientTrace()
  return sql`
    insert into trigger_event (kind, source, subject, filename, traceparent, tracestate)
    select 'fileUploaded', ${source}, file.id, file.original_name, ${traceparent}, ${tracestate} from file
    where exists (select 1 from trigger t where t.source = ${source} and t.state <> 'disabled')
    returning id`
}
