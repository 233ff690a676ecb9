import { DropdownMenu, Dialog as RadixDialog } from 'radix-ui'
import { type ReactNode, useState } from 'react'
import { messageOf } from '../api/errors.ts'
import { Button, IconButton } from './controls.tsx'
import { Icon, type IconName } from './icons.tsx'
import { Notice } from './surfaces.tsx'

/** A modal dialog. It closes by Escape, by its button, and by a click outside. */
export function Dialog({
  title,
  description,
  isOpen,
  onClose,
  size = 'medium',
  children,
}: {
  title: string
  description?: ReactNode
  isOpen: boolean
  onClose: () => void
  size?: 'medium' | 'large'
  children: ReactNode
}) {
  return (
    <RadixDialog.Root open={isOpen} onOpenChange={(open) => !open && onClose()}>
      <RadixDialog.Portal>
        <RadixDialog.Overlay className="overlay" />
        <RadixDialog.Content
          className="dialog"
          data-size={size}
          onOpenAutoFocus={focusField}
          {...(description ? {} : { 'aria-describedby': undefined })}
        >
          <header>
            <RadixDialog.Title asChild>
              <h2>{title}</h2>
            </RadixDialog.Title>
            <RadixDialog.Close asChild>
              <IconButton icon="close" label="Close" size="small" />
            </RadixDialog.Close>
          </header>
          <div className="dialog-body">
            {description && (
              <RadixDialog.Description asChild>
                <p className="muted">{description}</p>
              </RadixDialog.Description>
            )}
            {children}
          </div>
        </RadixDialog.Content>
      </RadixDialog.Portal>
    </RadixDialog.Root>
  )
}

interface FormProps {
  submitLabel: string
  isDangerous?: boolean
  submit: () => Promise<unknown>
  /** A second way to submit, which becomes the first button. */
  other?: { label: string; submit: () => Promise<unknown> }
  onClose: () => void
  children?: ReactNode
}

/** A dialog with a form. `submit` may reject: the dialog then stays open and shows why. */
export function FormDialog({
  title,
  description,
  isOpen,
  ...form
}: FormProps & { title: string; description?: ReactNode; isOpen: boolean }) {
  return (
    <Dialog title={title} description={description} isOpen={isOpen} onClose={form.onClose}>
      <FormFields {...form} />
    </Dialog>
  )
}

/** The fields and buttons of a dialog. Enter submits; in a field with several lines, Ctrl Enter does. */
export function FormFields({
  submitLabel,
  isDangerous = false,
  submit,
  other,
  onClose,
  children,
}: FormProps) {
  const [problem, setProblem] = useState<string | null>(null)
  const [isBusy, setBusy] = useState(false)
  const send = async (action: () => Promise<unknown>) => {
    setBusy(true)
    setProblem(null)
    try {
      await action()
      onClose()
    } catch (error) {
      setProblem(messageOf(error))
    } finally {
      setBusy(false)
    }
  }
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault()
        if (!isBusy) void send(submit)
      }}
      onKeyDown={(event) => {
        if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) event.currentTarget.requestSubmit()
      }}
    >
      {children}
      {problem && <Notice tone="bad">{problem}</Notice>}
      <footer>
        <Button onClick={onClose}>Cancel</Button>
        <Button type="submit" kind={isDangerous ? 'danger' : other ? 'plain' : 'primary'} disabled={isBusy}>
          {isBusy ? 'Working…' : submitLabel}
        </Button>
        {other && (
          <Button kind="primary" disabled={isBusy} onClick={() => void send(other.submit)}>
            {other.label}
          </Button>
        )}
      </footer>
    </form>
  )
}

export interface MenuItem {
  label: string
  icon?: IconName
  isDangerous?: boolean
  isDisabled?: boolean
  onSelect: () => void
}

/** A button that opens a menu of actions. */
export function Menu({ label, items }: { label: string; items: readonly MenuItem[] }) {
  return (
    <DropdownMenu.Root modal={false}>
      <DropdownMenu.Trigger asChild>
        <IconButton icon="more" label={label} kind="plain" />
      </DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content className="menu" align="end" sideOffset={4} collisionPadding={8}>
          {items.map((item) => (
            <DropdownMenu.Item
              key={item.label}
              disabled={item.isDisabled ?? false}
              data-tone={item.isDangerous ? 'bad' : undefined}
              onSelect={item.onSelect}
            >
              {item.icon && <Icon name={item.icon} />}
              {item.label}
            </DropdownMenu.Item>
          ))}
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  )
}

/** Focuses the first field of the dialog. Without a field, the first button gets the focus. */
function focusField(event: Event): void {
  const field = (event.target as Element).querySelector<HTMLElement>('input, select, textarea')
  if (field === null) return
  event.preventDefault()
  field.focus()
}
