import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { LAYERS, layerOf } from '../../../ground/names.ts'

import { useNamespaces } from '../../api/namespaces.ts'
import { type ListedTable, TABLE_FILTERS, tableListQuery, type Version, versionIn } from '../../api/tables.ts'
import { Button, SearchField, Select } from '../../design/controls.tsx'
import { bytes, count } from '../../design/format.ts'
import { Loaded } from '../../design/loaded.tsx'
import { Layer, Tag } from '../../design/status.tsx'
import { Card, Empty, Page } from '../../design/surfaces.tsx'
import { Table } from '../../design/table.tsx'
import { BranchSelect } from '../../fields/branch-select.tsx'
import { type FiltersOf, useFilters } from '../../shell/filters.ts'
import { usePager } from '../../shell/paging.tsx'
import { AsOfField } from './as-of-field.tsx'

type Filters = FiltersOf<'/lake'>
const NONE: Filters = Object.fromEntries(TABLE_FILTERS.map((name) => [name, '']))

/** The tables and views of main, of a branch, or of main as of a point. All filters are in the address. */
export default function LakeList() {
  const [filters, change] = useFilters('/lake')
  const { search, namespace } = filters
  const layer = layerOf(filters.layer)
  const version = versionIn(filters)
  const pager = usePager()
  const query = useQuery(tableListQuery(filters))
  const isFiltered = Boolean(search || namespace || layer)
  return (
    <Page title="Lake" subtitle="Iceberg tables that runs and other engines write.">
      <Card isFlush>
        <LakeFilters filters={filters} change={(changes) => change({ offset: '', ...changes })} />
        <Loaded query={query}>
          {({ tables, total }) =>
            total === 0 ? (
              <Empty
                icon="lake"
                title={isFiltered ? 'No table matches these filters' : 'No table yet'}
                actions={isFiltered && <Button onClick={() => change(NONE)}>Clear the filters</Button>}
              >
                A table appears with the first successful run of its pipeline.
              </Empty>
            ) : (
              <>
                <Tables tables={tables} version={version} />
                {pager(total)}
              </>
            )
          }
        </Loaded>
      </Card>
    </Page>
  )
}

function LakeFilters({ filters, change }: { filters: Filters; change: (changes: Filters) => void }) {
  const { search = '', namespace = '', layer = '', branch = '', as_of: asOf = '' } = filters
  const namespaces = useNamespaces(namespace)
  return (
    <div className="lake-filters">
      <SearchField label="Search tables" value={search} onChange={(value) => change({ search: value })} />
      <Select
        label="Namespace"
        value={namespace}
        choices={[{ value: '', label: 'all' }, ...namespaces.map((name) => ({ value: name, label: name }))]}
        onChange={(value) => change({ namespace: value })}
      />
      <Select
        label="Layer"
        value={layer}
        choices={[{ value: '', label: 'all' }, ...LAYERS.map((value) => ({ value, label: value }))]}
        onChange={(value) => change({ layer: value })}
      />
      <BranchSelect isLabelShown value={branch} onChange={(value) => change({ branch: value, as_of: '' })} />
      <AsOfField key={asOf} value={asOf} onChange={(value) => change({ as_of: value, branch: '' })} />
    </div>
  )
}

function Tables({ tables, version }: { tables: readonly ListedTable[]; version: Version }) {
  return (
    <Table
      label="Tables"
      rows={tables}
      keyOf={({ namespace, layer, name }) => `${namespace}.${layer}.${name}`}
      columns={[
        { name: 'Layer', cell: ({ layer }) => <Layer layer={layer} /> },
        {
          name: 'Table',
          cell: ({ namespace: ns, layer, name, kind, description }) => (
            <>
              <Link to="/lake/$ns/$layer/$name" params={{ ns, layer, name }} search={version}>
                {ns}.{layer}.{name}
              </Link>{' '}
              {kind === 'view' && <Tag>view</Tag>}
              {description && <div className="muted">{description}</div>}
            </>
          ),
        },
        {
          name: 'Rows',
          isNumeric: true,
          cell: ({ kind, row_count: rows }) => (kind === 'view' ? '–' : count(rows)),
        },
        {
          name: 'Size',
          isNumeric: true,
          cell: ({ kind, size_bytes: size }) => (kind === 'view' ? '–' : bytes(size)),
        },
      ]}
    />
  )
}
