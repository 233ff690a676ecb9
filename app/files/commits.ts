// Serializes conditional changes of a path across all replicas with an advisory lock. Unconditional changes share the lock, so
// they wait only for conditional changes. Conditional writes of the object store are not used, because servers implement them
// differently.
import type { Sql, SqlTx } from '../../drizzle/client.ts'
import { type Precondition, preconditionFailed } from '../http/conditions.ts'
import type { ObjectStore, StagedObject } from '../objects/port.ts'
import { lockPath } from './store.ts'

interface Commits {
  /** Gives a staged object its final name. Throws 412 when the condition does not hold. */
  commit(
    path: string,
    staged: StagedObject,
    options?: { condition?: Precondition | null; tx?: SqlTx },
  ): Promise<{ versionId: string }>
  /** Deletes a file and returns whether it existed. Throws 412 when the condition does not hold. */
  remove(path: string, condition?: Precondition | null): Promise<boolean>
}

export function makeCommits({ sql, objects }: { sql: Sql; objects: ObjectStore }): Commits {
  /**
   * Performs `change` under the path's lock. The lock holds a connection only while the store commits or deletes an object,
   * never while bytes arrive.
   */
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
      // The change is done; only the lock's connection was lost afterwards.
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
