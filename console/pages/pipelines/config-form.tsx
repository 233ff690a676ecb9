import { useQuery } from '@tanstack/react-query'
import { useMemo, useState } from 'react'
import { fileQuery } from '../../api/files.ts'
import { folderOf, type Named, type Pipeline, sourceOf } from '../../api/pipelines.ts'
import { Select, TextField } from '../../design/controls.tsx'
import { Notice } from '../../design/surfaces.tsx'
import { type Field, type FieldState, GROUPS, stateOf, withText } from './config-fields.ts'
import type { Draft } from './draft.ts'

/** The settings of a pipeline. Each change is a change of the text of config.yaml. */
export default function ConfigForm({ at, pipeline, draft }: { at: Named; pipeline: Pipeline; draft: Draft }) {
  const name = sourceOf(pipeline)
  const path = folderOf(at) + name
  const { data: source } = useQuery(fileQuery(path))
  const { text, setText } = draft
  const state = useMemo(
    () => stateOf(text, { path: name, text: source?.content ?? '' }),
    [text, name, source],
  )
  if (state.fault !== null)
    return <Notice tone="bad">The YAML cannot be shown as a form: {state.fault}. Mend it as text.</Notice>
  return (
    <form
      className="config-form"
      aria-label="Configuration"
      onSubmit={(event) => {
        event.preventDefault()
        void draft.save()
      }}
      onKeyDown={(event) => {
        if (event.key !== 's' || !(event.ctrlKey || event.metaKey)) return
        event.preventDefault()
        void draft.save()
      }}
    >
      {state.others.map((message) => (
        <Notice tone="warn" key={message}>
          {message}
        </Notice>
      ))}
      {GROUPS.map(({ title, fields }) => {
        const used = fields.filter(
          ({ key, isUsed }) => isUsed?.(state.config) !== false || state.fields.get(key)?.text !== '',
        )
        return (
          used.length > 0 && (
            <fieldset key={title}>
              <legend>{title}</legend>
              {used.map((field) => (
                <ConfigField
                  key={field.key}
                  field={field}
                  state={state.fields.get(field.key)}
                  onText={(value) => setText(withText(text, field.key, value))}
                />
              ))}
            </fieldset>
          )
        )
      })}
      <button type="submit" hidden />
    </form>
  )
}

function ConfigField({
  field,
  state,
  onText,
}: {
  field: Field
  state: FieldState | undefined
  onText: (text: string) => void
}) {
  // The file has no comma at the end of a list, but the person who types has.
  const [typed, setTyped] = useState<string | null>(null)
  const { text = '', fallback = '', problem = null, overriddenBy = null } = state ?? {}
  const hint =
    overriddenBy === null ? field.hint : `The code has @${field.key}: ${overriddenBy}, which applies instead.`
  const { label, kind } = field
  if (typeof kind === 'string')
    return (
      <TextField
        label={label}
        value={typed ?? text}
        placeholder={fallback || 'not set'}
        hint={hint}
        problem={problem}
        onChange={({ target }) => {
          setTyped(target.value)
          onText(target.value)
        }}
        onBlur={() => setTyped(null)}
      />
    )
  return (
    <Select
      label={label}
      hint={hint}
      problem={problem}
      value={text}
      choices={[
        { value: '', label: `default: ${fallback}` },
        ...[...new Set([...kind, ...(text === '' ? [] : [text])])].map((value) => ({ value, label: value })),
      ]}
      onChange={onText}
    />
  )
}
