import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { api, LAYERS, ok } from '../../api/client.ts'
import { SLOW_MS } from '../../api/queries.ts'
import { SearchField, Select } from '../../design/controls.tsx'
import { bytes, count } from '../../design/format.ts'
import { Loaded } from '../../design/loaded.tsx'
import { Layer, Tag } from '../../design/status.tsx'
import { Card, Empty, Page } from '../../design/surfaces.tsx'
import { Table } from '../../design/table.tsx'
import { useFilters } from '../../shell/filters.ts'
import { BranchSelect } from '../branches/branch-select.tsx'

/** Rows of the table. A search finds the others. */
const ROWS_SHOWN = 500

/** All tables and views of main or of a branch. */
export default function LakeList() {
  const [filters, change] = useFilters()
  const { search = '', branch = '' } = filters
  const layer = LAYERS.find((each) => each === filters.layer)
  const query = useQuery({
    queryKey: ['tables', 'list', layer, branch],
    queryFn: () => ok(api.tables.get({ query: { ...(layer && { layer }), ...(branch && { branch }) } })),
    refetchInterval: SLOW_MS,
    placeholderData: (before) => before,
  })
  return (
    <Page title="Lake" subtitle="Iceberg tables that runs and other engines write.">
      <Card
        isFlush
        actions={
          <>
            <SearchField
              label="Search tables"
              value={search}
              onChange={(value) => change({ search: value })}
            />
            <Select
              label="Layer"
              isLabelShown={false}
              value={layer ?? ''}
              choices={[
                { value: '', label: 'All layers' },
                ...LAYERS.map((value) => ({ value, label: value })),
              ]}
              onChange={(value) => change({ layer: value })}
            />
            <BranchSelect value={branch} onChange={(value) => change({ branch: value })} />
          </>
        }
      >
        <Loaded query={query}>
          {({ tables }) => {
            const found = tables.filter(({ namespace, layer, name }) =>
              `${namespace}.${layer}.${name}`.includes(search.toLowerCase()),
            )
            if (found.length === 0)
              return (
                <Empty icon="lake" title={search ? 'No table has this name' : 'No table yet'}>
                  A table appears with the first successful run of its pipeline.
                </Empty>
              )
            return (
              <Table
                label="Tables"
                rows={found.slice(0, ROWS_SHOWN)}
                keyOf={(table) => `${table.namespace}.${table.layer}.${table.name}`}
                columns={[
                  { name: 'Layer', cell: (table) => <Layer layer={table.layer} /> },
                  {
                    name: 'Table',
                    cell: (table) => (
                      <>
                        <Link
                          to="/lake/$ns/$layer/$name"
                          params={{ ns: table.namespace, layer: table.layer, name: table.name }}
                          search={branch ? { branch } : {}}
                        >
                          {table.namespace}.{table.layer}.{table.name}
                        </Link>{' '}
                        {table.kind === 'view' && <Tag>view</Tag>}
                        {table.description && <div className="muted">{table.description}</div>}
                      </>
                    ),
                  },
                  { name: 'Rows', isNumeric: true, cell: (table) => count(table.row_count) },
                  { name: 'Size', isNumeric: true, cell: (table) => bytes(table.size_bytes) },
                ]}
              />
            )
          }}
        </Loaded>
      </Card>
    </Page>
  )
}
