import { readdirSync, readFileSync } from 'node:fs'

/** Linux counts in hundredths of a second. */
const TICK_MS = 10

/** Milliseconds of CPU, by who spent them. */
export type CpuMs = Record<string, number>

/** What to count: this process, a process with its children, or one thread (and all others) of a process. */
export interface Counted {
  /** Processes with the children they have. */
  processes?: Record<string, number>
  /** Of these processes, threads with this name are counted by themselves. */
  threads?: Record<string, { pid: number; thread: string }>
}

/** CPU spent until now (Linux; else NaN). `own` is this process with its threads. */
export const countCpu =
  ({ processes = {}, threads = {} }: Counted) =>
  (): CpuMs => {
    const { user, system } = process.cpuUsage()
    const spent: CpuMs = { own: (user + system) / 1000 }
    for (const [name, pid] of Object.entries(processes)) spent[name] = treeOf(pid)
    for (const [name, { pid, thread }] of Object.entries(threads)) {
      spent[name] = threadOf(pid, thread)
      for (const [whole, owner] of Object.entries(processes))
        if (owner === pid) spent[whole] = (spent[whole] ?? Number.NaN) - spent[name]
    }
    return spent
  }

/** The same of Postgres and the API process as wholes. */
export const cpuOf = (postgres: number, api: number) => {
  const count = countCpu({ processes: { postgres, api } })
  return () => {
    const spent = count()
    return {
      own: spent.own ?? Number.NaN,
      postgres: spent.postgres ?? Number.NaN,
      api: spent.api ?? Number.NaN,
    }
  }
}

/** A process and its children: a process counts its children that have ended, those that live are added. */
function treeOf(parent: number): number {
  let ms = 0
  try {
    for (const entry of readdirSync('/proc')) {
      if (!/^\d+$/.test(entry)) continue
      const fields = statOf(`/proc/${entry}/stat`)?.fields
      if (fields === undefined) continue
      const isParent = Number(entry) === parent
      if (isParent || Number(fields[1]) === parent)
        ms += sum(fields, isParent ? [11, 12, 13, 14] : [11, 12]) * TICK_MS
    }
  } catch {
    return Number.NaN
  }
  return ms
}

/** The threads of a process that have this name. */
function threadOf(pid: number, name: string): number {
  try {
    const all = readdirSync(`/proc/${pid}/task`).map((thread) => statOf(`/proc/${pid}/task/${thread}/stat`))
    return all.reduce((ms, stat) => ms + (stat?.name === name ? sum(stat.fields, [11, 12]) * TICK_MS : 0), 0)
  } catch {
    return Number.NaN
  }
}

const sum = (fields: string[], places: number[]) =>
  places.reduce((total, place) => total + Number(fields[place]), 0)

/** The command's name, which may hold anything, and the fields after it; null: the process has ended meanwhile. */
function statOf(path: string): { name: string; fields: string[] } | null {
  try {
    const text = readFileSync(path, 'utf8')
    const end = text.lastIndexOf(')')
    return { name: text.slice(text.indexOf('(') + 1, end), fields: text.slice(end + 2).split(' ') }
  } catch {
    return null
  }
}
