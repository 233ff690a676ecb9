/** What marks stand for, of those that were used last. */
export interface Kept<Meaning> {
  /** By mark: what is kept of these, and of the others what `ask` says of their ids, if they still exist, by its own marks. */
  of(marks: readonly string[], ask: Ask<Meaning>): Promise<Map<string, Meaning>>
}

/** `isFinal`: the mark stands for the same as long as it exists. */
type Ask<Meaning> = (ids: string[]) => Promise<{ mark: string; meaning: Meaning; isFinal: boolean }[]>

const ID_LENGTH = 36
export const idIn = (mark: string) => mark.slice(0, ID_LENGTH)
export const afterId = (mark: string) => mark.slice(ID_LENGTH + 1)

export function makeKept<Meaning>(limit: number): Kept<Meaning> {
  const kept = new Map<string, { meaning: Meaning; lastUse: number }>()
  let uses = 0

  /** Which were used first is looked for when there are too many: to keep all in order would cost more than to find them. */
  function forgetOldest() {
    const surplus = kept.size - limit
    if (surplus <= 0) return
    const lastUses = Float64Array.from(kept.values(), ({ lastUse }) => lastUse).sort()
    const first = lastUses[surplus] ?? Number.POSITIVE_INFINITY
    for (const [mark, { lastUse }] of kept) if (lastUse < first) kept.delete(mark)
  }

  return {
    async of(marks, ask) {
      const found = new Map<string, Meaning>()
      const unknown: string[] = []
      for (const mark of marks) {
        const known = kept.get(mark)
        if (known === undefined) unknown.push(idIn(mark))
        else {
          known.lastUse = ++uses
          found.set(mark, known.meaning)
        }
      }
      if (unknown.length === 0) return found
      for (const { mark, meaning, isFinal } of await ask(unknown)) {
        found.set(mark, meaning)
        if (isFinal) kept.set(mark, { meaning, lastUse: ++uses })
      }
      forgetOldest()
      return found
    },
  }
}
