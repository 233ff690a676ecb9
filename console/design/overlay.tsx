import { DropdownMenu, Dialog as RadixDialog } from 'radix-ui'
import { type ReactNode, useRef, useState } from 'react'
import { messageOf } from '../api/errors.ts'
import { Button, IconButton } from './controls.tsx'
import { Icon, type IconName } from './icons.tsx'
import { Notice } from './surfaces.tsx'

const FIELD = 'input:not([type=hidden]), select, textarea'

/**
 * A modal dialog. It closes by Escape, by its button, and unless it is a form, by a click outside. Without
 * `onClose`, only its content closes it.
 */
export function Dialog({
  title,
  description,
  isOpen,
  onClose,
  size = 'medium',
  isForm = false,
  children,
}: {
  title: string
  description?: ReactNode
  isOpen: boolean
  onClose?: () => void
  size?: 'medium' | 'large'
  /** A click outside does not close a form, because it would lose what was typed. */
  isForm?: boolean
  children: ReactNode
}) {
  const content = useRef<HTMLDivElement>(null)
  const opener = useRef<Element>(null)
  return (
    <RadixDialog.Root open={isOpen} onOpenChange={(open) => !open && onClose?.()}>
      <RadixDialog.Portal>
        <RadixDialog.Overlay className="overlay" />
        <RadixDialog.Content
          ref={content}
          className="dialog"
          data-size={size}
          onOpenAutoFocus={(event) => {
            event.preventDefault()
            opener.current = document.activeElement
            const body = content.current
            const first =
              body?.querySelector<HTMLElement>(FIELD) ?? body?.querySelector<HTMLElement>('footer button')
            ;(first ?? body)?.focus()
          }}
          onCloseAutoFocus={(event) => {
            event.preventDefault()
            focusAgain(opener.current)
          }}
          onInteractOutside={(event) => isForm && event.preventDefault()}
          {...(description ? {} : { 'aria-describedby': undefined })}
        >
          <header>
            <RadixDialog.Title asChild>
              <h2>{title}</h2>
            </RadixDialog.Title>
            {onClose && (
              <RadixDialog.Close asChild>
                <IconButton icon="close" label="Close" size="small" />
              </RadixDialog.Close>
            )}
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

/**
 * Focuses the element that opened a dialog. The item of a menu is gone by then; its menu's button stands for it. So is the row of
 * a deleted thing; the page stands for it.
 */
function focusAgain(opener: Element | null): void {
  const isThere =
    opener instanceof HTMLElement &&
    opener.isConnected &&
    opener !== document.body &&
    !opener.matches(':disabled')
  const find = (selector: string) => document.querySelector<HTMLElement>(selector)
  const target = isThere ? opener : (find('[data-menu]') ?? find('main'))
  target?.focus()
}

interface FormProps {
  submitLabel: string
  isDangerous?: boolean
  submit: () => Promise<unknown>
  /** A second way to submit, which becomes the first button. */
  other?: { label: string; submit: () => Promise<unknown> }
  onClose: () => void
  /** Called when the form begins or ends to wait for the service. */
  onBusy?: (isBusy: boolean) => void
  children?: ReactNode
}

/** A dialog with a form. `submit` may reject: the dialog then stays open and shows why. It stays open until then. */
export function FormDialog({
  title,
  description,
  isOpen,
  ...form
}: FormProps & { title: string; description?: ReactNode; isOpen: boolean }) {
  const isBusy = useRef(false)
  const close = () => {
    if (!isBusy.current) form.onClose()
  }
  return (
    <Dialog title={title} description={description} isOpen={isOpen} onClose={close} isForm>
      <FormFields
        {...form}
        onBusy={(busy) => {
          isBusy.current = busy
        }}
      />
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
  onBusy,
  children,
}: FormProps) {
  const [problem, setProblem] = useState<string | null>(null)
  const [isBusy, setBusy] = useState(false)
  const send = async (action: () => Promise<unknown>) => {
    setBusy(true)
    onBusy?.(true)
    setProblem(null)
    try {
      await action()
      onClose()
    } catch (error) {
      setProblem(messageOf(error))
    } finally {
      setBusy(false)
      onBusy?.(false)
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
        <Button disabled={isBusy} onClick={onClose}>
          Cancel
        </Button>
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

interface MenuItem {
  label: string
  icon?: IconName
  isDangerous?: boolean
  isDisabled?: boolean
  onSelect: () => void
}

/** A button that opens a menu of actions. */
export function Menu({
  label,
  items,
  size = 'medium',
}: {
  label: string
  items: readonly MenuItem[]
  size?: 'medium' | 'small'
}) {
  return (
    <DropdownMenu.Root modal={false}>
      <DropdownMenu.Trigger asChild>
        <IconButton icon="more" label={label} kind="plain" size={size} data-menu />
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
