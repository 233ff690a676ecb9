import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import type { RetentionOverrides } from '../../../app/retention/schema.ts'
import type { Named } from '../../api/pipelines.ts'
import { overrideRetention, type PipelineRetention, pipelineRetentionQuery } from '../../api/retention.ts'
import { TextField } from '../../design/controls.tsx'
import { Loaded } from '../../design/loaded.tsx'
import { Dialog, FormFields } from '../../design/overlay.tsx'

const KEYS = [
  'runs_max_per_pipeline',
  'runs_max_age_days',
  'logs_max_age_days',
  'quality_results_max_per_test',
] as const satisfies readonly (keyof RetentionOverrides)[]

const wordsOf = (key: string) => key.replaceAll('_', ' ').replace(/^./, (letter) => letter.toUpperCase())

/** The retention settings of one pipeline, which override those of the service. */
export function RetentionDialog({
  at,
  isOpen,
  onClose,
}: {
  at: Named
  isOpen: boolean
  onClose: () => void
}) {
  const query = useQuery({ ...pipelineRetentionQuery(at), enabled: isOpen })
  return (
    <Dialog
      title="How long results stay"
      description="An empty field follows the setting of the service."
      isOpen={isOpen}
      onClose={onClose}
    >
      <Loaded query={query}>
        {(retention) => (
          <Overrides key={query.dataUpdatedAt} at={at} retention={retention} onClose={onClose} />
        )}
      </Loaded>
    </Dialog>
  )
}

function Overrides({
  at,
  retention,
  onClose,
}: {
  at: Named
  retention: PipelineRetention
  onClose: () => void
}) {
  const given = (retention.overrides ?? {}) as Record<string, number | undefined>
  const [texts, setTexts] = useState(
    Object.fromEntries(KEYS.map((key) => [key, given[key] === undefined ? '' : String(given[key])])),
  )
  const system = retention.system as Record<string, unknown>
  return (
    <FormFields
      submitLabel="Save"
      onClose={onClose}
      submit={() => {
        const overrides = Object.entries(texts).flatMap(([key, text]) =>
          text.trim() === '' ? [] : [[key, Number(text)]],
        )
        return overrideRetention(at, Object.fromEntries(overrides))
      }}
    >
      {KEYS.map((key) => (
        <TextField
          key={key}
          label={wordsOf(key)}
          type="number"
          min={0}
          placeholder={String(system[key])}
          value={texts[key] ?? ''}
          onChange={(event) => setTexts({ ...texts, [key]: event.target.value })}
        />
      ))}
    </FormFields>
  )
}
