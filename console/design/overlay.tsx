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

/** A dialog with a form. `submit` may reject: the dialog then stays open and shows why. */
export function FormDialog({
  title,
  description,
  isOpen,
  onClose,
  submitLabel,
  isDangerous = false,
  submit,
  children,
}: {
  title: string
  description?: ReactNode
  isOpen: boolean
  onClose: () => void
  submitLabel: string
  isDangerous?: boolean
  submit: () => Promise<unknown>
  children?: ReactNode
}) {
  const [problem, setProblem] = useState<string | null>(null)
  const [isBusy, setBusy] = useState(false)
  const close = () => {
    setProblem(null)
    onClose()
  }
  const send = async () => {
    setBusy(true)
    setProblem(null)
    try {
      await submit()
      close()
    } catch (error) {
      setProblem(messageOf(error))
    } finally {
      setBusy(false)
    }
  }
  return (
    <Dialog title={title} description={description} isOpen={isOpen} onClose={close}>
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault()
          void send()
        }}
      >
        {children}
        {problem && <Notice tone="bad">{problem}</Notice>}
        <footer>
          <Button onClick={close}>Cancel</Button>
          <Button type="submit" kind={isDangerous ? 'danger' : 'primary'} disabled={isBusy}>
            {isBusy ? 'Working…' : submitLabel}
          </Button>
        </footer>
      </form>
    </Dialog>
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
