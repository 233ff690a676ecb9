import { useNavigate, useSearch } from '@tanstack/react-router'
import { useEffect, useRef } from 'react'
import type { History, MachineName, Step } from '../../api/inspector.ts'
import { isShortcut } from '../../shell/keys.ts'
import { lastLists } from './last-lists.ts'

/** The selected step. Its id is in the address; without an id, the latest step is selected. */
export function useSelection({ steps, hasEarlier, loadUntil }: History) {
  const { step: text } = useSearch({ from: '/inspector/$machine/$id' })
  const navigate = useNavigate()
  const asked = text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : null
  // A second key may come before the address has the step of the first key.
  const latest = useRef(asked)
  useEffect(() => {
    latest.current = asked
  }, [asked])
  const isMissing = asked !== null && hasEarlier && !steps.some(({ id }) => id === asked)
  useEffect(() => {
    if (isMissing) void loadUntil(asked ?? 0)
  }, [isMissing, asked, loadUntil])

  const indexIn = (all: readonly Step[], id: number | null) => {
    const found = id === null ? -1 : all.findIndex((step) => step.id === id)
    return found === -1 ? all.length - 1 : found
  }
  const show = (all: readonly Step[], index: number) => {
    const target = all[Math.min(Math.max(index, 0), all.length - 1)]
    if (target === undefined) return
    const next = target === all.at(-1) ? null : target.id
    if (next === latest.current) return
    latest.current = next
    void navigate({
      to: '.',
      search: next === null ? {} : { step: String(next) },
      replace: true,
      resetScroll: false,
    } as never)
  }
  const index = indexIn(steps, asked)
  const step = index === steps.length - 1 ? null : (steps[index]?.id ?? null)
  return {
    index,
    /** The id of the selected step; null: the latest. */
    step,
    isLatest: step === null,
    select: (id: number) => show(steps, indexIn(steps, id)),
    first: async () => show(await loadUntil(0), 0),
    last: () => show(steps, steps.length - 1),
    /** Moves by a number of steps, also before the first loaded step. */
    move: async (by: number) => {
      const at = indexIn(steps, latest.current)
      const id = steps[at]?.id
      if (id === undefined) return
      const all = at + by < 0 ? await loadUntil(id - 1) : steps
      show(all, indexIn(all, id) + by)
    },
  }
}

export type Selection = ReturnType<typeof useSelection>

/** Arrow keys, Home and End select a step; Escape goes back to the list. */
export function useStepKeys(machine: MachineName, selection: Selection) {
  const navigate = useNavigate()
  const latest = useRef(selection)
  latest.current = selection
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (!isShortcut(event)) return
      const { move, first, last } = latest.current
      const back = () =>
        navigate({ to: '/inspector/$machine', params: { machine }, search: lastLists.get(machine) ?? {} })
      const actions: Record<string, (() => unknown) | undefined> = {
        ArrowLeft: () => move(-1),
        ArrowRight: () => move(1),
        Home: first,
        End: last,
        Escape: back,
      }
      const action = actions[event.key]
      if (action === undefined) return
      event.preventDefault()
      void action()
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [machine, navigate])
}
