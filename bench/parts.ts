import { readdirSync, readFileSync } from 'node:fs'
import { readRegistry } from '../sidecars/supervisor/registry.ts'

/** CPU spent until now, in milliseconds, by the parts of a running service. */
export type PartsCpu = Record<string, number>

const NS_PER_MS = 1e6

/**
 * CPU of a supervised tree by its parts (Linux; elsewhere there are none): of the API process the HTTP thread and each
 * worker, of the runner its engines apart from itself, those that have ended among them. Threads that have ended in a
 * process that lives are not counted.
 */
export function partsCpu(dataDir: string): PartsCpu {
  const sums: PartsCpu = {}
  const add = (part: string, ms: number) => {
    sums[part] = (sums[part] ?? 0) + ms
  }
  const children = childrenByParent()
  for (const { name, pid } of readRegistry(dataDir)?.processes ?? []) {
    if (pid === null) continue
    if (name === 'api') for (const { thread, ms } of threadsOf(pid)) add(partOfApi(thread), ms)
    else for (const { ms } of threadsOf(pid)) add(name, ms)
    const below = name === 'runner' || name === 'query' ? `${name}'s engines` : name
    add(below, endedChildrenMs(pid))
    for (const child of descendants(pid, children))
      for (const { ms } of [...threadsOf(child), { ms: endedChildrenMs(child) }]) add(below, ms)
  }
  return sums
}

export const cpuBetween = (before: PartsCpu, after: PartsCpu): PartsCpu =>
  Object.fromEntries(Object.entries(after).map(([part, ms]) => [part, ms - (before[part] ?? 0)]))

const WORKERS = new Set(['dispatcher', 'triggers', 'scheduler', 'reaper'])
const partOfApi = (thread: string) => (WORKERS.has(thread) ? `api: ${thread}` : threadName(thread))
/** What all of the process's JavaScript threads share. */
const threadName = (thread: string) =>
  /HeapHelper|JITWorker|scavenger|WarmUp/.test(thread) ? 'api: collector and compiler' : 'api: HTTP'

function threadsOf(pid: number): { thread: string; ms: number }[] {
  return entriesOf(`/proc/${pid}/task`).flatMap((task) => {
    const stat = textOf(`/proc/${pid}/task/${task}/schedstat`)
    const thread = textOf(`/proc/${pid}/task/${task}/comm`)
    return stat === null ? [] : [{ thread: thread?.trim() ?? '', ms: Number(stat.split(' ')[0]) / NS_PER_MS }]
  })
}

/** Linux counts in hundredths of a second. */
const TICK_MS = 10

/** What the children of a process have spent that have ended. */
function endedChildrenMs(pid: number): number {
  const fields = fieldsOf(pid)
  return (Number(fields?.[13] ?? 0) + Number(fields?.[14] ?? 0)) * TICK_MS
}

/** Of /proc/<pid>/stat, after the command's name, which may hold anything. */
function fieldsOf(pid: number | string): string[] | undefined {
  const stat = textOf(`/proc/${pid}/stat`)
  return stat?.slice(stat.lastIndexOf(')') + 2).split(' ')
}

function childrenByParent(): Map<number, number[]> {
  const children = new Map<number, number[]>()
  for (const entry of entriesOf('/proc').filter((name) => /^\d+$/.test(name))) {
    const parent = Number(fieldsOf(entry)?.[1])
    children.set(parent, [...(children.get(parent) ?? []), Number(entry)])
  }
  return children
}

const descendants = (pid: number, children: Map<number, number[]>): number[] =>
  (children.get(pid) ?? []).flatMap((child) => [child, ...descendants(child, children)])

function entriesOf(directory: string): string[] {
  try {
    return readdirSync(directory)
  } catch {
    return []
  }
}

function textOf(path: string): string | null {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return null
  }
}
