// An upload is announced where triggers hear it: a row in the transaction of the file's own, so that none is ever missed.
import { sql } from 'drizzle-orm'
import type { Tx } from '../../drizzle/client.ts'
import type { FileRow, ZoneRef } from './queries.ts'

/** Whether some trigger will hear it. */
export async function announceUpload(tx: Tx, { namespace, name }: ZoneRef, file: FileRow): Promise<boolean> {
  const source = `zone:${namespace}.${name}`
  const recorded = await tx.execute(sql`
    insert into trigger_event (kind, source, subject, filename)
    select 'fileUploaded', ${source}, ${file.id}, ${file.originalName}
    where exists (select 1 from trigger t where t.source = ${source} and t.state <> 'disabled')
    returning 1`)
  return recorded.length > 0
}
