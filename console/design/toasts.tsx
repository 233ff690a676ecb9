import { useSyncExternalStore } from 'react'
import { messageOf } from '../api/errors.ts'
import { IconButton } from './controls.tsx'

// Short messages about finished work, in a corner of the page.

interface Toast {
  id: number
  tone: 'good' | 'bad'
  text: string
}

const SHOWN_MS = 6_000
const TOASTS_MAX = 4

let toasts: readonly Toast[] = []
let lastId = 0
const listeners = new Set<() => void>()

function set(next: readonly Toast[]) {
  toasts = next
  for (const listener of listeners) listener()
}

const drop = (id: number) => set(toasts.filter((toast) => toast.id !== id))

function show(tone: Toast['tone'], text: string): void {
  lastId += 1
  const id = lastId
  set([...toasts, { id, tone, text }].slice(-TOASTS_MAX))
  // An error stays until the person closes it.
  if (tone === 'good') setTimeout(() => drop(id), SHOWN_MS)
}

export const say = (text: string): void => show('good', text)
export const sayError = (error: unknown): void => show('bad', messageOf(error))

/** Performs `work` and says how it ended. Returns whether it succeeded. */
export async function performing(work: Promise<unknown>, done: string): Promise<boolean> {
  try {
    await work
    say(done)
    return true
  } catch (error) {
    sayError(error)
    return false
  }
}

const subscribe = (listener: () => void) => {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

export function Toasts() {
  const shown = useSyncExternalStore(subscribe, () => toasts)
  return (
    <div className="toasts" role="status" aria-live="polite">
      {shown.map(({ id, tone, text }) => (
        <div className="toast" data-tone={tone} key={id}>
          <p>{text}</p>
          <IconButton icon="close" label="Close the message" size="small" onClick={() => drop(id)} />
        </div>
      ))}
    </div>
  )
}
