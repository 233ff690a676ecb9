import { useNavigate } from '@tanstack/react-router'
import { useEffect } from 'react'
import { PLACES } from './places.ts'

/** Time for the second key of a sequence such as `g p`. */
const SEQUENCE_MS = 1_200

/** Whether keys belong to a text that is being written. */
const isWriting = (target: EventTarget | null) =>
  target instanceof HTMLElement &&
  (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))

/** Whether a key is free for a page: no text, dialog or control uses it. `inText` allows keys in a text, too. */
export const isShortcut = (event: KeyboardEvent, inText = false): boolean =>
  !(event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey) &&
  (inText || !isWriting(event.target)) &&
  document.querySelector('[role=dialog]') === null

/** The keys of the whole console: `/` and Ctrl+K, `?`, and `g` with the key of a place. */
export function useShellKeys({ openPalette, openHelp }: { openPalette: () => void; openHelp: () => void }) {
  const navigate = useNavigate()
  useEffect(() => {
    let sequenceEndsAt = 0
    const onKey = (event: KeyboardEvent) => {
      if (event.defaultPrevented) return
      if ((event.ctrlKey || event.metaKey) && !event.shiftKey && event.key.toLowerCase() === 'k') {
        event.preventDefault()
        return openPalette()
      }
      if (event.ctrlKey || event.metaKey || event.altKey || isWriting(event.target)) return
      if (document.querySelector('[role=dialog]') !== null) return
      const isSecond = performance.now() < sequenceEndsAt
      sequenceEndsAt = 0
      const place = isSecond ? PLACES.find(({ key }) => key === event.key) : undefined
      if (place !== undefined) {
        event.preventDefault()
        void navigate({ to: place.path })
      } else if (event.key === 'g') sequenceEndsAt = performance.now() + SEQUENCE_MS
      else if (event.key === '?') openHelp()
      else if (event.key === '/') {
        event.preventDefault()
        const field = document.querySelector<HTMLInputElement>('[data-search]')
        if (field === null) openPalette()
        else field.focus()
      }
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [navigate, openPalette, openHelp])
}
