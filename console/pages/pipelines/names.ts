import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { zoneNamesQuery } from '../../api/landing-zones.ts'
import type { Completion } from '../../editor/completion.ts'
import { useColumns, useTables } from '../../editor/tables.ts'

/** Zones change seldom, so they need not be read often. */
const ZONES_MS = 60_000

/** Names that complete the code of a pipeline: `ref(...)`, `landing_zone(...)`, and the columns of tables that it reads. */
export function useNames(namespace: string, text: string, isWriting: boolean): Completion[] {
  const tables = useTables(isWriting)
  const { data: zones } = useQuery({
    ...zoneNamesQuery(),
    staleTime: ZONES_MS,
    enabled: isWriting,
  })
  const columns = useColumns(text, namespace, tables)
  const names = useMemo(() => {
    const own = (zones?.zones ?? []).filter((zone) => zone.namespace === namespace)
    return [
      ...tables.map((table) => ({
        label: `ref('${namespace === table.namespace ? '' : `${table.namespace}.`}${table.layer}.${table.name}')`,
        detail: `table of ${table.namespace}`,
      })),
      ...own.map((zone) => ({ label: `landing_zone('${zone.name}')`, detail: 'landing zone' })),
      { label: 'this', detail: 'the table that the pipeline writes' },
      { label: 'is_incremental()', detail: 'true if the table has rows' },
      { label: 'watermark_value', detail: 'the largest value so far' },
    ]
  }, [tables, zones, namespace])
  return useMemo(() => [...columns, ...names], [columns, names])
}
