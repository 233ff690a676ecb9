import { randomInt } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'

// User ids for sandboxed processes of a service that is root. Each process has its own user. So it cannot change the modes of
// another process's files, or use the rights that a user has over the user's own processes.

/** The first of USERS user ids. The ids fit into 16 bits, because containers often map no others, and end before `nobody`. */
export const FIRST_USER = 65_432
/** More users than the processes of the largest configuration (CONCURRENCY_MAX, previews, checks, spares). */
const USERS = 102

interface Users {
  /** Acquires a user without processes, until its release. Throws when all users are acquired. */
  acquire(): Promise<number>
  /** May be called only when no process and no file of the user remains. */
  release(user: number): void
}

export function makeUsers(): Users {
  const acquired = new Set<number>()
  return {
    async acquire() {
      // Another service on this machine may use the same range.
      const busy = await usersOfProcesses()
      const free = Array.from({ length: USERS }, (_, place) => FIRST_USER + place).filter(
        (user) => !acquired.has(user) && !busy.has(user),
      )
      const user = free[randomInt(Math.max(1, free.length))]
      if (user === undefined)
        throw new Error(`all ${USERS} Unix user ids reserved for sandboxed processes are taken`)
      acquired.add(user)
      return user
    },
    release: (user) => void acquired.delete(user),
  }
}

/** Real, effective, saved and file system users of all processes. Empty on a system without /proc. */
async function usersOfProcesses(): Promise<Set<number>> {
  const names = await readdir('/proc').catch(() => [])
  const found = await Promise.all(
    names
      .filter((name) => /^\d+$/.test(name))
      .map(async (pid) => {
        const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
        return /^Uid:\t(.*)$/m.exec(status)?.[1]?.split('\t').map(Number) ?? []
      }),
  )
  return new Set(found.flat())
}
