/** What marks stand for, of those that were used last. */
export interface Kept<Meaning> {
  /** By the ids that these marks begin with: kept, or what `ask` says of the ids of the others, if they still exist. */
  of(marks: readonly string[], ask: Ask<Meaning>): Promise<Map<string, Meaning>>
}

/** `isFinal`: the mark stands for the same as long as it exists. */
type Ask<Meaning> = (ids: string[]) => Promise<{ mark: string; meaning: Meaning; isFinal: boolean }[]>

const ID_LENGTH = 36
export const idIn = (mark: string) => mark.slice(0, ID_LENGTH)
export const afterId = (mark: string) => mark.slice(ID_LENGTH + 1)

export function makeKept<Meaning>(limit: number): Kept<Meaning> {
  const kept = new Map<string, Meaning>()

  function keep(mark: string, meaning: Meaning) {
    // The one used last is at the end.
    kept.delete(mark)
    kept.set(mark, meaning)
    for (const oldest of kept.keys()) {
      if (kept.size <= limit) return
      kept.delete(oldest)
    }
  }

  return {
    async of(marks, ask) {
      const found = new Map<string, Meaning>()
      const unknown: string[] = []
      for (const mark of marks) {
        const meaning = kept.get(mark)
        if (meaning === undefined) unknown.push(idIn(mark))
        else {
          found.set(idIn(mark), meaning)
          keep(mark, meaning)
        }
      }
      if (unknown.length === 0) return found
      for (const { mark, meaning, isFinal } of await ask(unknown)) {
        found.set(idIn(mark), meaning)
        if (isFinal) keep(mark, meaning)
      }
      return found
    },
  }
}
