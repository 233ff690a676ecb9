import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { api, ok } from '../../api/client.ts'

/** Names change when a pipeline runs for the first time, so they need not be read often. */
const NAMES_MS = 60_000

/** Names for the completion of code: tables with their columns, `ref(...)` and `landing_zone(...)`. */
export function useNames(namespace: string) {
  const { data: tables } = useQuery({
    queryKey: ['tables', 'schema'],
    queryFn: () => ok(api.schema.get({ query: {} })),
    staleTime: NAMES_MS,
  })
  const { data: zones } = useQuery({
    queryKey: ['zones', 'names'],
    queryFn: () => ok(api['landing-zones'].get({ query: {} })),
    staleTime: NAMES_MS,
  })
  return useMemo(() => {
    const all = tables?.tables ?? []
    const own = (zones?.zones ?? []).filter((zone) => zone.namespace === namespace)
    return {
      schema: columnsByTable(all),
      completions: [
        ...all.map((table) => ({
          label: `ref('${namespace === table.namespace ? '' : `${table.namespace}.`}${table.layer}.${table.name}')`,
          detail: `table of ${table.namespace}`,
        })),
        ...own.map((zone) => ({ label: `landing_zone('${zone.name}')`, detail: 'landing zone' })),
        { label: 'this', detail: 'the table that the pipeline writes' },
        { label: 'is_incremental()', detail: 'true if the table has rows' },
        { label: 'watermark_value', detail: 'the largest value so far' },
      ],
    }
  }, [tables, zones, namespace])
}

interface TableColumns {
  layer: string
  name: string
  columns: readonly { name: string }[]
}

/** Columns by `layer.table`. In a pipeline, an alias of a `ref()` has them; the editor completes those of every table. */
const columnsByTable = (tables: readonly TableColumns[]) =>
  Object.fromEntries(
    tables.map(({ layer, name, columns }) => [`${layer}.${name}`, columns.map((column) => column.name)]),
  )
