import { randomInt } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'

// User ids for sandboxed processes of a service that is root. Each process has a user of its own, so that it can neither
// change the mode of another's files nor reach it by a right that a user has over himself.

/** The first of USERS user ids. They fit into 16 bits, as containers often map no others, and end before `nobody`. */
export const FIRST_USER = 65_432
/** More than the processes of the largest configuration (CONCURRENCY_MAX, previews, checks, spares). */
export const USERS = 102

export interface Users {
  /** A user without processes, held until it is released. Throws where all are held. */
  acquire(): Promise<number>
  /** Call it when neither a process nor a file of the user remains. */
  release(user: number): void
}

export function makeUsers(): Users {
  const held = new Set<number>()
  return {
    async acquire() {
      // Another service of this machine may use the same range.
      const busy = await usersOfProcesses()
      const free = Array.from({ length: USERS }, (_, place) => FIRST_USER + place).filter(
        (user) => !held.has(user) && !busy.has(user),
      )
      const user = free[randomInt(Math.max(1, free.length))]
      if (user === undefined) throw new Error(`all ${USERS} users of the sandbox are in use`)
      held.add(user)
      return user
    },
    release: (user) => void held.delete(user),
  }
}

/** Real, effective, saved and file system users of all processes. Empty where there is no /proc. */
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
