import { useEffect, useState, useSyncExternalStore } from 'react'
import { messageOf } from '../../api/errors.ts'
import { queryClient } from '../../api/queries.ts'
import { say } from '../../design/toasts.tsx'
import { forget, type StoredFile, writeFile } from './files.ts'

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

/** Stores the changed text. What a person writes meanwhile stays a change. Throws ApiError. */
async function store(path: string, { text, base }: Change): Promise<void> {
  const written = await writeFile(path, { content: text, etag: base.etag })
  const now = changes.get(path)
  if (now !== undefined) setChange(path, { text: now.text, base: written })
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
  useUnsavedWarning(change !== undefined)
  return {
    text: change?.text ?? loaded.content,
    isChanged: change !== undefined,
    problem,
    setText: (text) => setChange(path, { text, base: changes.get(path)?.base ?? loaded }),
    async save() {
      if (change === undefined) return
      try {
        await store(path, change)
        setProblem(null)
        say('The draft is saved')
        await queryClient.invalidateQueries({ queryKey: ['pipelines'] })
      } catch (error) {
        setProblem(error)
      }
    },
    reload() {
      setChange(path, null)
      setProblem(null)
      void forget(path)
    },
  }
}

/** Saves the changed texts of a folder, as a publish needs it. Throws why one was not saved. */
export async function saveAll(folder: string): Promise<void> {
  for (const [path, change] of [...changes]) {
    if (!path.startsWith(folder)) continue
    await store(path, change).catch((error: unknown) => {
      throw new Error(`${path.slice(folder.length)} was not saved: ${messageOf(error)}`, { cause: error })
    })
  }
}

const isChangedBelow = (folder: string) => [...changes.keys()].some((path) => path.startsWith(folder))

/** Whether a folder has texts that are not saved. */
export const useUnsaved = (folder: string) => useSyncExternalStore(subscribe, () => isChangedBelow(folder))

/** The browser asks before it leaves a page with a text that is not saved. */
function useUnsavedWarning(isChanged: boolean): void {
  useEffect(() => {
    if (!isChanged) return
    const ask = (event: BeforeUnloadEvent) => event.preventDefault()
    addEventListener('beforeunload', ask)
    return () => removeEventListener('beforeunload', ask)
  }, [isChanged])
}
