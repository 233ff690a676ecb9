/**
 * `<DATA_DIR>/run/processes.json` lists the running processes, for operators, fault tests and the next start. The next start
 * ends processes that a killed supervisor left behind. Only the owner may read the file, because the database address contains
 * the password.
 */
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { PartState } from './tree.ts'

type ProcessRecord = {
  name: string
  pid: number | null
  port: number | null
  restarts: number
  started_at: string | null
  /** The kernel's start time of the process. It distinguishes the process from a later one with the same id. */
  kernel_start_time: string | null
}

type Registry = {
  supervisor_pid: number
  url: string
  database_url: string
  processes: ProcessRecord[]
}

/** Children of a killed supervisor end by themselves. After this time they are killed. */
const LEFTOVER_DEADLINE_MS = 6_000
const POLL_MS = 20

export const registryPath = (dataDir: string) => join(dataDir, 'run', 'processes.json')

export function readRegistry(dataDir: string): Registry | undefined {
  try {
    return JSON.parse(readFileSync(registryPath(dataDir), 'utf8'))
  } catch {
    return undefined
  }
}

export function writeRegistry(
  dataDir: string,
  about: { url: string; databaseUrl: string },
  parts: PartState[],
) {
  const registry: Registry = {
    supervisor_pid: process.pid,
    url: about.url,
    database_url: about.databaseUrl,
    processes: parts.map((part) => ({
      name: part.name,
      pid: part.pid ?? null,
      port: part.port ?? null,
      restarts: part.restarts,
      started_at: part.startedAt?.toISOString() ?? null,
      kernel_start_time: part.pid ? kernelStartTime(part.pid) : null,
    })),
  }
  const path = registryPath(dataDir)
  writeFileSync(`${path}.new`, `${JSON.stringify(registry, null, 2)}\n`, { mode: 0o600 })
  renameSync(`${path}.new`, path)
}

export const removeRegistry = (dataDir: string) => rmSync(registryPath(dataDir), { force: true })

/**
 * Waits for the processes of a dead supervisor, and kills those that do not end in time. Skips Postgres, because
 * `startPostgres` ends an earlier server itself.
 */
export async function endLeftovers(
  registry: Registry,
  log: (message: string) => void,
  deadlineMs = LEFTOVER_DEADLINE_MS,
) {
  const leftovers = registry.processes.filter((record) => record.name !== 'postgres' && isStillThere(record))
  if (leftovers.length === 0) return
  log(
    `waiting for leftover processes of a killed Sluice: ${leftovers.map((record) => record.name).join(', ')}`,
  )
  for (let waitedMs = 0; leftovers.some(isStillThere); waitedMs += POLL_MS) {
    if (waitedMs >= deadlineMs) {
      for (const { pid } of leftovers.filter(isStillThere)) if (pid) process.kill(pid, 'SIGKILL')
    }
    await Bun.sleep(POLL_MS)
  }
}

const isStillThere = ({ pid, kernel_start_time }: ProcessRecord) =>
  pid !== null && kernel_start_time !== null && kernelStartTime(pid) === kernel_start_time

/** Returns null if the process does not exist or is a zombie. */
export function kernelStartTime(pid: number): string | null {
  if (process.platform !== 'linux') {
    return (
      Bun.spawnSync(['ps', '-o', 'lstart=', '-p', String(pid)])
        .stdout.toString()
        .trim() || null
    )
  }
  try {
    // Field 22 of proc(5) stat, counted after the name in parentheses, because the name may contain spaces.
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const [state, ...fields] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    // A container may lack a process that reaps zombies.
    return state === 'Z' ? null : (fields[18] ?? null)
  } catch {
    return null
  }
}
