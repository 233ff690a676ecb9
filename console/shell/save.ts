import { readBlob } from '../api/request.ts'
import { performing } from '../design/toasts.tsx'

/** Time until the browser has read the file. */
const KEPT_MS = 10_000

/** Saves a file on the computer of the person. */
export function save(blob: Blob, name: string): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(blob)
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), KEPT_MS)
}

/** Saves an answer of the API as a file. */
export const saveAnswer = (path: string, name: string): Promise<boolean> =>
  performing(
    readBlob(path).then((blob) => save(blob, name)),
    `Saved ${name}`,
  )
