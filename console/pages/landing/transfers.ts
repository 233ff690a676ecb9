import { useSyncExternalStore } from 'react'
import { messageOf } from '../../api/errors.ts'
import { upload } from '../../api/uploads.ts'

interface Transfer {
  id: number
  name: string
  size: number
  share: number
  state: 'waiting' | 'sending' | 'stored' | 'failed' | 'cancelled'
  problem: string
  abort: AbortController
}

export const isActive = ({ state }: Transfer) => state === 'waiting' || state === 'sending'

// Uploads go on while the person looks at other pages, so their list lives here, by the address of the upload.
const transfers = new Map<string, readonly Transfer[]>()
const turns = new Map<string, Promise<void>>()
const listeners = new Set<() => void>()
const NONE: readonly Transfer[] = []
let lastId = 0

// Leaving the console ends its uploads, so the browser asks first.
addEventListener('beforeunload', (event) => {
  if ([...transfers.values()].flat().some(isActive)) event.preventDefault()
})

function set(path: string, next: readonly Transfer[]): void {
  transfers.set(path, next)
  for (const listener of listeners) listener()
}

const at = (path: string) => transfers.get(path) ?? NONE
const change = (path: string, id: number, changes: Partial<Transfer>) =>
  set(
    path,
    at(path).map((each) => (each.id === id ? { ...each, ...changes } : each)),
  )

function subscribe(listener: () => void) {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

/** The uploads to an address, the finished ones included. */
export const useTransfers = (path: string) => useSyncExternalStore(subscribe, () => at(path))

/** Sends files to an address, one after the other. */
export function send(path: string, files: Iterable<File>, onStored: () => void): void {
  for (const file of files) {
    lastId += 1
    const { name, size } = file
    const transfer: Transfer = {
      id: lastId,
      name,
      size,
      share: 0,
      state: 'waiting',
      problem: '',
      abort: new AbortController(),
    }
    set(path, [...at(path), transfer])
    turns.set(
      path,
      (turns.get(path) ?? Promise.resolve()).then(() => sendOne(path, transfer, file, onStored)),
    )
  }
}

async function sendOne(
  path: string,
  { id, abort }: Transfer,
  file: File,
  onStored: () => void,
): Promise<void> {
  if (abort.signal.aborted) return
  change(path, id, { state: 'sending' })
  try {
    await upload(path, file, {
      signal: abort.signal,
      onProgress: (share) => change(path, id, { share }),
    })
    change(path, id, { state: 'stored', share: 1 })
    onStored()
  } catch (error) {
    const isCancelled = abort.signal.aborted
    change(path, id, isCancelled ? { state: 'cancelled' } : { state: 'failed', problem: messageOf(error) })
  }
}

export function cancel(path: string, { id, abort }: Transfer): void {
  abort.abort()
  change(path, id, { state: 'cancelled' })
}

/** Forgets the uploads that have ended. */
export const clear = (path: string) => set(path, at(path).filter(isActive))
