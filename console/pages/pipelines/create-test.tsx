import { useState } from 'react'
import type { Named } from '../../api/pipelines.ts'
import { createTest } from '../../api/quality-tests.ts'
import { Select, TextArea, TextField } from '../../design/controls.tsx'
import { FormDialog } from '../../design/overlay.tsx'

export function CreateTest({ at, isOpen, onClose }: { at: Named; isOpen: boolean; onClose: () => void }) {
  const own = `${at.ns}.${at.layer}.${at.name}`
  const empty = {
    name: '',
    sql: `select * from {{ ref('${at.layer}.${at.name}') }} where `,
    severity: 'error' as 'error' | 'warn',
    description: '',
  }
  const [form, setForm] = useState(empty)
  return (
    <FormDialog
      title="New quality test"
      description={`A query on ${own} whose rows are violations. No row means that the test passes.`}
      isOpen={isOpen}
      onClose={onClose}
      submitLabel="Create"
      submit={async () => {
        await createTest(at, form)
        setForm(empty)
      }}
    >
      <TextField
        label="Name"
        required
        pattern="[a-z0-9][a-z0-9_\-]*"
        hint="Small letters, digits, - and _"
        value={form.name}
        onChange={(event) => setForm({ ...form, name: event.target.value })}
      />
      <TextArea
        label="SQL"
        required
        rows={5}
        className="mono"
        spellCheck={false}
        value={form.sql}
        onChange={(event) => setForm({ ...form, sql: event.target.value })}
      />
      <Select
        label="Severity"
        value={form.severity}
        choices={[
          { value: 'error', label: 'error: a violation stops the run' },
          { value: 'warn', label: 'warn: a violation is only shown' },
        ]}
        onChange={(value) => setForm({ ...form, severity: value as 'error' | 'warn' })}
      />
      <TextField
        label="Description"
        value={form.description}
        onChange={(event) => setForm({ ...form, description: event.target.value })}
      />
    </FormDialog>
  )
}
