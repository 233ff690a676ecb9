import type { SqlTx } from '../../drizzle/client.ts'
import { lockedTriggers, moveTrigger, rowColumns, saveTriggers, type TriggerRow } from './moves.ts'

/** Ends the cooldowns that are over. Firing does not wait for it: the machine knows the time itself. */
export async function endCooldowns(tx: SqlTx, limit: number): Promise<{ cooled: number; hasMore: boolean }> {
  const rows = await tx<(TriggerRow & { now: Date })[]>`
    select ${rowColumns(tx)}, clock_timestamp() as now from trigger t where t.id in (
      select id from trigger where state = 'cooling' and cooling_until <= (select clock_timestamp())
      order by cooling_until limit ${limit})
    order by t.id for update of t skip locked`
  const { triggers } = lockedTriggers(rows)
  const now = rows.at(-1)?.now
  if (now === undefined) return { cooled: 0, hasMore: false }
  for (const trigger of triggers.values())
    moveTrigger(trigger, { type: 'cooled', at: now.getTime() }, 'clock')
  await saveTriggers(tx, triggers.values(), now)
  const cooled = [...triggers.values()].filter(({ moves }) => moves.length > 0).length
  return { cooled, hasMore: rows.length === limit && cooled > 0 }
}
