import { useState, useSyncExternalStore } from 'react'
import { messageOf } from '../../api/errors.ts'
import { dropFolder, forgetFile, type StoredFile, writeFile } from '../../api/files.ts'
import { pipelinesChanged } from '../../api/pipelines.ts'
import { say } from '../../design/toasts.tsx'

interface Change {
  text: string
  /** The stored file that the text changes. */
  base: StoredFile
}

/** Texts that are not saved, by the path of their file. They stay while the person looks at other pages. */
const changes = new Map<string, Change>()
const listeners = new Set<() => void>()

function setChange(path: string, change: Change | null): void {
  if (change === null || change.text === change.base.content) changes.delete(path)
  else changes.set(path, change)
  for (const listener of listeners) listener()
}

function subscribe(listener: () => void) {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

// Leaving the page would lose these texts, so the browser asks first.
addEventListener('beforeunload', (event) => changes.size > 0 && event.preventDefault())

/** The last save of each file. A save waits for the one before, whose result it replaces. */
const saves = new Map<string, Promise<void>>()

/** Stores the changed text. Text that is written meanwhile stays a change. Throws ApiError. */
function store(path: string): Promise<void> {
  const before = saves.get(path) ?? Promise.resolve()
  const save = before
    .catch(() => {})
    .then(async () => {
      const change = changes.get(path)
      if (change === undefined) return
      const written = await writeFile(path, { content: change.text, etag: change.base.etag })
      const now = changes.get(path)
      if (now !== undefined) setChange(path, { text: now.text, base: written })
    })
  saves.set(path, save)
  return save
}

export interface Draft {
  text: string
  isChanged: boolean
  /** Why the text was not saved. */
  problem: unknown
  setText: (text: string) => void
  save: () => Promise<void>
  /** Gives the change up and shows the stored file. */
  reload: () => void
}

/** The text of a file that a person edits, until it is saved. */
export function useDraft(path: string, loaded: StoredFile): Draft {
  const change = useSyncExternalStore(subscribe, () => changes.get(path))
  const [problem, setProblem] = useState<unknown>(null)
  return {
    text: change?.text ?? loaded.content,
    isChanged: change !== undefined,
    problem,
    setText: (text) => setChange(path, { text, base: changes.get(path)?.base ?? loaded }),
    async save() {
      if (change === undefined) return
      try {
        await store(path)
        setProblem(null)
        say('The draft is saved')
        await pipelinesChanged()
      } catch (error) {
        setProblem(error)
      }
    },
    reload() {
      setChange(path, null)
      setProblem(null)
      void forgetFile(path)
    },
  }
}

/** Saves the changed texts of a folder, as a publish needs it. Throws why one was not saved. */
export async function saveAll(folder: string): Promise<void> {
  for (const path of [...changes.keys()]) {
    if (!path.startsWith(folder)) continue
    await store(path).catch((error: unknown) => {
      throw new Error(`${path.slice(folder.length)} was not saved: ${messageOf(error)}`, { cause: error })
    })
  }
}

/** Gives up the changed and the loaded texts of a folder that was deleted. */
export function discardAll(folder: string): void {
  for (const path of [...changes.keys()]) if (path.startsWith(folder)) setChange(path, null)
  dropFolder(folder)
}

const isChangedBelow = (folder: string) => [...changes.keys()].some((path) => path.startsWith(folder))

/** Whether a folder has texts that are not saved. */
export const useUnsaved = (folder: string) => useSyncExternalStore(subscribe, () => isChangedBelow(folder))
