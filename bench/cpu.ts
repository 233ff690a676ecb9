import { readdirSync, readFileSync } from 'node:fs'

/** Linux counts in hundredths of a second. */
const TICK_MS = 10

/**
 * CPU spent until now, in milliseconds: by this process with its threads, by a Postgres server, and by the API process
 * if that is another one (Linux; else NaN).
 */
export const cpuOf = (postmaster: number, api?: number) => () => {
  const { user, system } = process.cpuUsage()
  return {
    own: (user + system) / 1000,
    postgres: treeOf(postmaster),
    api: api === undefined ? 0 : treeOf(api),
  }
}

/** A process and its children: a process counts its children that have ended, those that live are added. */
function treeOf(parent: number): number {
  let ms = 0
  try {
    for (const entry of readdirSync('/proc')) {
      if (!/^\d+$/.test(entry)) continue
      const fields = statOf(entry)
      if (fields === null) continue
      const isParent = Number(entry) === parent
      if (isParent || Number(fields[1]) === parent)
        ms += sum(fields, isParent ? [11, 12, 13, 14] : [11, 12]) * TICK_MS
    }
  } catch {
    return Number.NaN
  }
  return ms
}

const sum = (fields: string[], places: number[]) =>
  places.reduce((total, place) => total + Number(fields[place]), 0)

/** The fields after the command's name, which may hold anything; null: the process has ended meanwhile. */
function statOf(pid: string): string[] | null {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return text.slice(text.lastIndexOf(')') + 2).split(' ')
  } catch {
    return null
  }
}
