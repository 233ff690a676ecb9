import { LAYERS } from '../../../ground/names.ts'
import { useNamespaces } from '../../api/namespaces.ts'
import type { PipelineState } from '../../api/pipelines.ts'
import { Button, SearchField, Select } from '../../design/controls.tsx'
import type { FiltersOf } from '../../shell/filters.ts'

type Filters = FiltersOf<'/pipelines'>

const STATES: readonly { value: PipelineState; label: string }[] = [
  { value: 'published', label: 'published' },
  { value: 'unpublished', label: 'not published' },
  { value: 'changed', label: 'draft differs' },
  { value: 'failed', label: 'last run failed' },
  { value: 'failing_tests', label: 'tests fail' },
]

export const NO_FILTERS: Filters = { search: '', layer: '', state: '', namespace: '', tag: '', offset: '' }

/** The filters of the list, as they are in the address. */
export function ListFilters({ filters, change }: { filters: Filters; change: (changes: Filters) => void }) {
  const { search = '', layer = '', state = '', namespace = '', tag = '' } = filters
  const namespaces = useNamespaces(namespace)
  return (
    <>
      <SearchField label="Search pipelines" value={search} onChange={(value) => change({ search: value })} />
      {namespaces.length > 1 && (
        <Select
          label="Namespace"
          isLabelShown={false}
          value={namespace}
          choices={[
            { value: '', label: 'All namespaces' },
            ...namespaces.map((value) => ({ value, label: value })),
          ]}
          onChange={(value) => change({ namespace: value })}
        />
      )}
      <Select
        label="Layer"
        isLabelShown={false}
        value={layer}
        choices={[{ value: '', label: 'All layers' }, ...LAYERS.map((value) => ({ value, label: value }))]}
        onChange={(value) => change({ layer: value })}
      />
      <Select
        label="State"
        isLabelShown={false}
        value={state}
        choices={[{ value: '', label: 'All states' }, ...STATES]}
        onChange={(value) => change({ state: value })}
      />
      {tag !== '' && (
        <Button size="small" icon="cross" title="Remove this filter" onClick={() => change({ tag: '' })}>
          #{tag}
        </Button>
      )}
    </>
  )
}
