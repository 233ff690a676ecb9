import { useQuery } from '@tanstack/react-query'
import { useId } from 'react'
import { zoneNamesQuery } from '../api/landing-zones.ts'
import { useNamespaces } from '../api/namespaces.ts'
import { suggestedPipelinesQuery } from '../api/pipelines.ts'
import { tableNamesQuery } from '../api/tables.ts'
import { TextField } from '../design/controls.tsx'

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
  const { data } = useQuery(zoneNamesQuery())
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
  const { data } = useQuery(suggestedPipelinesQuery(search))
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
  const { data } = useQuery(tableNamesQuery())
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
