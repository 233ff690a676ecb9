import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { LAYERS, type Layer } from '../../../ground/names.ts'

import { createPipeline } from '../../api/pipelines.ts'
import { Select, TextField } from '../../design/controls.tsx'
import { FormDialog } from '../../design/overlay.tsx'
import { NamespaceField, SourceField } from '../../fields/suggestions.tsx'

/** The form of a new pipeline. `source` is its first input. */
export function CreatePipeline({
  namespace = 'default',
  source,
  onClose,
}: {
  namespace?: string | undefined
  source: string
  onClose: () => void
}) {
  const navigate = useNavigate()
  const [form, setForm] = useState({
    namespace,
    layer: 'bronze' as Layer,
    name: source.split('.').at(-1) ?? '',
    type: 'sql' as 'sql' | 'python',
    description: '',
    source,
  })
  const create = async () => {
    const { source: input, ...rest } = form
    const made = await createPipeline({ ...rest, ...(input && { source: input }) })
    const { namespace: ns, layer, name } = made
    await navigate({ to: '/pipelines/$ns/$layer/$name', params: { ns, layer, name } })
  }
  return (
    <FormDialog
      title="New pipeline"
      description="It starts with a draft that can be published and run unchanged."
      isOpen
      onClose={onClose}
      submitLabel="Create"
      submit={create}
    >
      <TextField
        label="Name"
        required
        pattern="[a-z0-9][a-z0-9_\-]*"
        hint="Small letters, digits, - and _"
        value={form.name}
        onChange={(event) => setForm({ ...form, name: event.target.value })}
      />
      <div className="row">
        <NamespaceField value={form.namespace} onChange={(value) => setForm({ ...form, namespace: value })} />
        <Select
          label="Layer"
          value={form.layer}
          choices={LAYERS.map((value) => ({ value, label: value }))}
          onChange={(value) => setForm({ ...form, layer: value as Layer })}
        />
        <Select
          label="Language"
          value={form.type}
          choices={[
            { value: 'sql', label: 'SQL' },
            { value: 'python', label: 'Python' },
          ]}
          onChange={(value) => setForm({ ...form, type: value as 'sql' | 'python' })}
        />
      </div>
      <SourceField
        namespace={form.namespace}
        value={form.source}
        onChange={(value) => setForm({ ...form, source: value })}
      />
      <TextField
        label="Description"
        value={form.description}
        onChange={(event) => setForm({ ...form, description: event.target.value })}
      />
    </FormDialog>
  )
}
