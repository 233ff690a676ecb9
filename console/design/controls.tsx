import { type ComponentProps, type ReactNode, useId, useState } from 'react'
import { Icon, type IconName } from './icons.tsx'

interface ButtonProps extends ComponentProps<'button'> {
  kind?: 'plain' | 'primary' | 'danger' | 'quiet'
  size?: 'medium' | 'small'
  icon?: IconName
}

export function Button({ kind = 'plain', size = 'medium', icon, children, ...rest }: ButtonProps) {
  return (
    <button
      type="button"
      {...rest}
      className={`button ${rest.className ?? ''}`}
      data-kind={kind}
      data-size={size}
    >
      {icon && <Icon name={icon} />}
      {children}
    </button>
  )
}

/** A button that shows an icon only. `label` is its name for everyone who does not see it. */
export function IconButton({
  icon,
  label,
  kind = 'quiet',
  size = 'medium',
  ...rest
}: Omit<ButtonProps, 'children' | 'icon'> & { icon: IconName; label: string }) {
  return (
    <button
      type="button"
      {...rest}
      className={`button icon-button ${rest.className ?? ''}`}
      data-kind={kind}
      data-size={size}
      aria-label={label}
      title={rest.title ?? label}
    >
      <Icon name={icon} />
    </button>
  )
}

interface FieldProps {
  label: string
  hint?: ReactNode
  /** The fault of the present value. */
  problem?: string | null | undefined
}

/** A labelled text field. */
export function TextField({ label, hint, problem, ...rest }: FieldProps & ComponentProps<'input'>) {
  const id = useId()
  const note = hint || problem ? `${id}-note` : undefined
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <input
        {...rest}
        id={id}
        className="input"
        aria-invalid={problem ? true : undefined}
        aria-describedby={note}
      />
      <FieldNote id={note} hint={hint} problem={problem} />
    </div>
  )
}

export function TextArea({ label, hint, problem, ...rest }: FieldProps & ComponentProps<'textarea'>) {
  const id = useId()
  const note = hint || problem ? `${id}-note` : undefined
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <textarea {...rest} id={id} className={`input ${rest.className ?? ''}`} aria-describedby={note} />
      <FieldNote id={note} hint={hint} problem={problem} />
    </div>
  )
}

function FieldNote({
  id,
  hint,
  problem,
}: {
  id: string | undefined
  hint: ReactNode
  problem: string | null | undefined
}) {
  if (problem)
    return (
      <small id={id} role="alert">
        {problem}
      </small>
    )
  return hint ? <small id={id}>{hint}</small> : null
}

export interface Choice {
  value: string
  label: string
}

/** A labelled list of choices. Without `isLabelShown`, only assistive technology gets the label. */
export function Select({
  label,
  hint,
  problem,
  choices,
  value,
  onChange,
  isLabelShown = true,
  disabled = false,
}: FieldProps & {
  choices: readonly Choice[]
  value: string
  onChange: (value: string) => void
  isLabelShown?: boolean
  disabled?: boolean
}) {
  const id = useId()
  const note = hint || problem ? `${id}-note` : undefined
  return (
    <div className="field">
      <label htmlFor={id} className={isLabelShown ? undefined : 'visually-hidden'}>
        {label}
      </label>
      <select
        id={id}
        className="input"
        value={value}
        disabled={disabled}
        aria-invalid={problem ? true : undefined}
        aria-describedby={note}
        onChange={(event) => onChange(event.target.value)}
      >
        {choices.map((choice) => (
          <option key={choice.value} value={choice.value}>
            {choice.label}
          </option>
        ))}
      </select>
      <FieldNote id={note} hint={hint} problem={problem} />
    </div>
  )
}

export function Checkbox({ label, ...rest }: { label: ReactNode } & Omit<ComponentProps<'input'>, 'type'>) {
  return (
    <label className="check">
      <input type="checkbox" {...rest} />
      <span>{label}</span>
    </label>
  )
}

/** Text that filters a list. `label` names the list. */
export function SearchField({
  label,
  value,
  onChange,
}: {
  label: string
  value: string
  onChange: (value: string) => void
}) {
  // The page may take the text later, for example from its address. Until then the field keeps what the person types.
  const [typed, setTyped] = useState<string | null>(null)
  return (
    <div className="search-field">
      <Icon name="search" />
      <input
        className="input"
        type="search"
        aria-label={label}
        placeholder={label}
        value={typed ?? value}
        onChange={(event) => {
          setTyped(event.target.value)
          onChange(event.target.value)
        }}
        onBlur={() => setTyped(null)}
        spellCheck={false}
        autoComplete="off"
        data-search
      />
    </div>
  )
}

/** Buttons of which exactly one is chosen. */
export function Segments<Value extends string>({
  label,
  choices,
  value,
  onChange,
}: {
  label: string
  choices: readonly { value: Value; label: string }[]
  value: Value
  onChange: (value: Value) => void
}) {
  return (
    <div className="segments" role="group" aria-label={label}>
      {choices.map((choice) => (
        <button
          type="button"
          key={choice.value}
          aria-pressed={choice.value === value}
          onClick={() => onChange(choice.value)}
        >
          {choice.label}
        </button>
      ))}
    </div>
  )
}

const SHOWN_MS = 1_500

/** Copies a text to the clipboard. A page without a secure connection has none. */
export function CopyButton({ text, label = 'Copy' }: { text: string; label?: string }) {
  const [said, setSaid] = useState<string | null>(null)
  const copy = async () => {
    const end = await Promise.resolve()
      .then(() => navigator.clipboard.writeText(text))
      .then(() => 'Copied')
      .catch(() => 'Select and copy it')
    setSaid(end)
    setTimeout(() => setSaid(null), SHOWN_MS)
  }
  return (
    <Button size="small" kind="quiet" icon={said === 'Copied' ? 'check' : 'copy'} onClick={() => void copy()}>
      {said ?? label}
    </Button>
  )
}

export const Kbd = ({ children }: { children: ReactNode }) => <kbd className="kbd">{children}</kbd>
