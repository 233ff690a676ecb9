import { useQuery } from '@tanstack/react-query'
import { useId } from 'react'
import { api, ok } from '../../api/client.ts'
import { TextField } from '../../design/controls.tsx'

const SHOWN = '50'

interface FieldProps {
  label: string
  value: string
  onChange: (value: string) => void
  required?: boolean
  hint?: string
  pattern?: string
}

/** A text field that suggests texts. */
function SuggestField({ onChange, texts, ...rest }: FieldProps & { texts: readonly string[] }) {
  const list = useId()
  return (
    <>
      <TextField
        {...rest}
        list={list}
        autoComplete="off"
        spellCheck={false}
        onChange={(event) => onChange(event.target.value)}
      />
      <datalist id={list}>
        {texts.map((text) => (
          <option key={text} value={text} />
        ))}
      </datalist>
    </>
  )
}

function useZones() {
  const { data } = useQuery({
    queryKey: ['zones', 'names'],
    queryFn: () => ok(api['landing-zones'].get({ query: {} })),
  })
  return data?.zones ?? []
}

/** A landing zone with its namespace. */
export function ZoneField({ value, onChange }: Pick<FieldProps, 'value' | 'onChange'>) {
  return (
    <SuggestField
      label="Landing zone"
      required
      hint="namespace.zone, for example default.orders"
      pattern="[a-z][a-z0-9\-]*\.[a-z0-9][a-z0-9\-]*"
      value={value}
      onChange={onChange}
      texts={useZones().map(({ namespace, name }) => `${namespace}.${name}`)}
    />
  )
}

/** A pipeline with its namespace. The name, as far as it is typed, is searched among all pipelines. */
export function PipelineField({ label, value, onChange }: Pick<FieldProps, 'label' | 'value' | 'onChange'>) {
  const search = value.split('.').at(-1) ?? ''
  const { data } = useQuery({
    queryKey: ['pipelines', 'suggested', search],
    queryFn: () => ok(api.pipelines.get({ query: { ...(search && { search }), limit: SHOWN } })),
    placeholderData: (before) => before,
  })
  return (
    <SuggestField
      label={label}
      required
      hint="namespace.layer.name, for example default.silver.orders"
      pattern="[a-z][a-z0-9\-]*\.(bronze|silver|gold)\.[a-z0-9][a-z0-9_\-]*"
      value={value}
      onChange={onChange}
      texts={(data?.pipelines ?? []).map(({ namespace, layer, name }) => `${namespace}.${layer}.${name}`)}
    />
  )
}

/** The input of a new pipeline: a table, or a landing zone of its namespace. */
export function SourceField({
  namespace,
  value,
  onChange,
}: Pick<FieldProps, 'value' | 'onChange'> & { namespace: string }) {
  const zones = useZones().filter((zone) => zone.namespace === namespace)
  const { data } = useQuery({
    queryKey: ['tables', 'names'],
    queryFn: () => ok(api.tables.get({ query: {} })),
  })
  const tables = (data?.tables ?? []).map((table) =>
    table.namespace === namespace
      ? `${table.layer}.${table.name}`
      : `${table.namespace}.${table.layer}.${table.name}`,
  )
  return (
    <SuggestField
      label="Reads (optional)"
      hint="A landing zone or a table; the draft then begins with a query of it"
      value={value}
      onChange={onChange}
      texts={[...zones.map(({ name }) => name), ...tables]}
    />
  )
}

/** A namespace that exists. */
export function NamespaceField({ value, onChange }: Pick<FieldProps, 'value' | 'onChange'>) {
  return <SuggestField label="Namespace" required value={value} onChange={onChange} texts={useNamespaces()} />
}

export function useNamespaces(): string[] {
  const { data } = useQuery({
    queryKey: ['namespaces'],
    queryFn: () => ok(api.namespaces.get({ query: {} })),
  })
  return (data?.namespaces ?? []).map(({ name }) => name)
}
