// The contents of a lake in memory: the history of main, and the states that branches, tags, runs and queries keep.

/** The rows of a table, or the name of the table that a view reads. */
export type Content = { kind: 'table'; rows: readonly number[] } | { kind: 'view'; of: string }
export type World = ReadonlyMap<string, Content>
export type Change = (before: World) => World

/** The tables and views of main at each commit. A commit without a recorded change moved files only. */
export class MainModel {
  readonly #changes = new Map<number, Change>()

  record(commit: number, change: Change): void {
    if (this.#changes.has(commit)) throw new Error(`commit ${commit} of main is recorded twice`)
    this.#changes.set(commit, change)
  }

  /** Complete when every commit up to this one has been recorded. */
  at(commit: number): World {
    const earlier = [...this.#changes].filter(([number]) => number <= commit).toSorted(([a], [b]) => a - b)
    return earlier.reduce<World>((world, [, change]) => change(world), new Map())
  }

  /** The numbers of recorded commits. */
  get commits(): number[] {
    return [...this.#changes.keys()]
  }
}

const rowsIn = (world: World, name: string): readonly number[] => {
  const content = world.get(name)
  return content?.kind === 'table' ? content.rows : []
}
const set =
  (name: string, contentIn: (world: World) => Content): Change =>
  (before) =>
    new Map(before).set(name, contentIn(before))

export const overwritten = (name: string, rows: readonly number[]): Change =>
  set(name, () => ({ kind: 'table', rows }))
export const appended = (name: string, rows: readonly number[]): Change =>
  set(name, (before) => ({ kind: 'table', rows: [...rowsIn(before, name), ...rows] }))
export const deleted = (name: string, rows: readonly number[]): Change =>
  set(name, (before) => ({ kind: 'table', rows: rowsIn(before, name).filter((row) => !rows.includes(row)) }))
export const viewed = (name: string, of: string): Change => set(name, () => ({ kind: 'view', of }))
export const restored = (name: string, from: () => World): Change =>
  set(name, () => {
    const content = from().get(name)
    if (content === undefined) throw new Error(`${name} was restored from a commit without it`)
    return content
  })
export const renamed =
  (from: string, to: string): Change =>
  (before) => {
    const after = new Map(before)
    const content = after.get(from)
    if (content === undefined) throw new Error(`${from} was renamed, but does not exist`)
    after.delete(from)
    return after.set(to, content)
  }
