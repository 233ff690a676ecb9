import { LAYERS } from '../../api/client.ts'
import { Button, SearchField, Select } from '../../design/controls.tsx'
import type { Filters } from '../../shell/filters.ts'
import { useNamespaces } from './suggestions.tsx'

/** The states by which the API filters pipelines. */
export const STATES = [
  { value: 'published', label: 'published' },
  { value: 'unpublished', label: 'not published' },
  { value: 'changed', label: 'draft differs' },
  { value: 'failed', label: 'last run failed' },
  { value: 'failing_tests', label: 'tests fail' },
] as const

export const NO_FILTERS: Filters = { search: '', layer: '', state: '', namespace: '', tag: '', offset: '' }

/** The filters of the list, as they are in the address. */
export function ListFilters({ filters, change }: { filters: Filters; change: (changes: Filters) => void }) {
  const { search = '', layer = '', state = '', namespace = '', tag = '' } = filters
  const namespaces = useNamespaces()
  const known = namespace === '' || namespaces.includes(namespace) ? namespaces : [namespace, ...namespaces]
  return (
    <>
      <SearchField label="Search pipelines" value={search} onChange={(value) => change({ search: value })} />
      {known.length > 1 && (
        <Select
          label="Namespace"
          isLabelShown={false}
          value={namespace}
          choices={[
            { value: '', label: 'All namespaces' },
            ...known.map((value) => ({ value, label: value })),
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
