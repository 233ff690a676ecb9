import { useState } from 'react'
import { TextField } from '../../design/controls.tsx'

/** A point of main. A text counts when Enter is pressed or the field is left, because half a text names no point. */
export function AsOfField({ value, onChange }: { value: string; onChange: (asOf: string) => void }) {
  const [text, setText] = useState(value)
  const commit = () => {
    if (text.trim() !== value) onChange(text.trim())
  }
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault()
        commit()
      }}
    >
      <TextField
        label="As of"
        placeholder="commit, tag or time"
        spellCheck={false}
        autoComplete="off"
        value={text}
        onChange={(event) => setText(event.target.value)}
        onBlur={commit}
      />
    </form>
  )
}
