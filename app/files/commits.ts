// Changes of files that may depend on what is there: they are made one at a time for each path, on every replica. A change
// without a condition waits only for those that have one. No store is asked for a conditional write: servers differ in it.
import type { Sql, SqlTx } from '../../drizzle/client.ts'
import { type Precondition, preconditionFailed } from '../http/conditions.ts'
import type { ObjectStore, StagedObject } from '../objects/port.ts'
import { lockPath } from './store.ts'

export interface Commits {
  /** Gives a staged object its name. 412 when the condition does not hold. */
  commit(
    path: string,
    staged: StagedObject,
    options?: { condition?: Precondition | null; tx?: SqlTx },
  ): Promise<{ versionId: string }>
  /** Whether there was something to delete. 412 when the condition does not hold. */
  remove(path: string, condition?: Precondition | null): Promise<boolean>
}

export function makeCommits({ sql, objects }: { sql: Sql; objects: ObjectStore }): Commits {
  /** Holds a connection while the store names or hides what it has already: not while it receives anything. */
  async function inTurn<T>(
    path: string,
    { condition, tx }: { condition: Precondition | null; tx?: SqlTx },
    change: () => Promise<T>,
  ): Promise<T> {
    let done: { changed: T } | undefined
    const withLock = async (tx: SqlTx) => {
      if (condition === null) await lockPath(tx, path, 'shared')
      else {
        await lockPath(tx, path, 'alone')
        const present = await objects.head(path)
        if (!condition(present?.versionId ?? null)) throw preconditionFailed(`file ${path}`)
      }
      done = { changed: await change() }
      return done
    }
    try {
      const { changed } = await (tx === undefined ? sql.begin(withLock) : withLock(tx))
      return changed
    } catch (error) {
      // The lock was lost after what it was for.
      if (tx === undefined && done !== undefined) return done.changed
      throw error
    }
  }

  return {
    commit: (path, staged, { condition = null, tx } = {}) =>
      inTurn(path, { condition, tx }, () => staged.commit(path)),
    remove: (path, condition = null) =>
      inTurn(path, { condition }, async () => {
        if ((await objects.head(path)) === null) return false
        await objects.delete(path)
        return true
      }),
  }
}
