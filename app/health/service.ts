import { limits } from '../core/limits.ts'
import type { Log } from '../core/log.ts'
import type { Licensing } from '../licensing/service.ts'
import { SidecarRefusal } from '../rpc/clients.ts'

export { ping } from './store.ts'

/** Resolves when the part answers; a sidecar returns the sandbox of its engines. The signal ends the wait. */
export type ReadinessCheck = (signal: AbortSignal) => Promise<unknown>

/** Dependencies of the service (specification, Readiness dependency checks). Null: the configuration disables the part. */
export interface ReadinessChecks {
  postgres: ReadinessCheck
  s3: ReadinessCheck
  runner: ReadinessCheck | null
  query: ReadinessCheck | null
  /** Configured plugins. They are required: without their answers nothing is allowed. */
  auth_plugin?: ReadinessCheck
  sharing_plugin?: ReadinessCheck
  enforcement_plugin?: ReadinessCheck
}

/** The sandbox of Python pipelines. Null: no runner can run them. */
export interface PythonHealth {
  /** The weakest sandbox of all runners that answer: `bubblewrap`, `landlock` or `none`. */
  sandbox: string
  version: string
}

/** Weakest first. */
const SANDBOXES = ['none', 'landlock', 'bubblewrap']

export function weakest(runners: readonly PythonHealth[]): PythonHealth | null {
  const able = runners.filter(({ sandbox }) => sandbox !== '')
  const rank = ({ sandbox }: PythonHealth) => SANDBOXES.indexOf(sandbox)
  return able.sort((a, b) => rank(a) - rank(b))[0] ?? null
}

type Part = keyof ReadinessChecks
const OWN_PARTS = ['postgres', 's3', 'runner', 'query'] as const
const PLUGIN_PARTS = ['auth_plugin', 'sharing_plugin', 'enforcement_plugin'] as const
type PluginPart = (typeof PLUGIN_PARTS)[number]
type HealthState = 'healthy' | 'unhealthy'
type Finding = { healthy: true; report: unknown } | { healthy: false; required: boolean; detail: string }

export interface Readiness {
  ready: boolean
  services: Record<Exclude<Part, PluginPart>, HealthState> & Partial<Record<PluginPart, HealthState>>
  /** Why a part is unhealthy, or why a healthy part starts no new work. */
  details: Partial<Record<Part | 'license' | 'api', string>>
  /** Absent when unknown. */
  python?: PythonHealth | null
  /** The weakest sandbox that engine processes have reported: `landlock`, `seccomp` or `none`. */
  engines: { runner?: string; query?: string }
}

export type HealthService = ReturnType<typeof makeHealthService>

interface Deps {
  readiness: ReadinessChecks
  /** Why healthy parts start no new work, such as a lack of disk space. */
  shortages?: () => Promise<Readiness['details']>
  /** Queries the runners that answer. */
  describePython?: (signal: AbortSignal) => Promise<PythonHealth | null>
  /** Pro edition only. */
  licensing?: Pick<Licensing, 'hasEnded'>
  /** Whether this replica is about to stop, so that balancers must choose another one. */
  isLeaving?: () => boolean
  log: Log
  timeoutMs?: number
}

export function makeHealthService({
  readiness,
  shortages,
  describePython,
  licensing,
  isLeaving = () => false,
  log,
  timeoutMs = limits.readinessTimeoutMs,
}: Deps) {
  /** Parts that failed their last check. Monitors poll every few seconds, so only a change is logged. */
  const unhealthy = new Set<Part>()

  async function checkPart(part: Part): Promise<Finding> {
    const check = readiness[part] ?? null
    if (check === null) return { healthy: false, required: false, detail: 'switched off' }
    const signal = AbortSignal.timeout(timeoutMs)
    try {
      const report = await Promise.race([check(signal), rejectedBy(signal)])
      if (unhealthy.delete(part)) log.info(`${part} is ready again`)
      return { healthy: true, report }
    } catch (error) {
      // Readiness is public and a reason may contain addresses, so the reason only goes to the log.
      if (!unhealthy.has(part)) log.warn(`${part} is not ready`, { error: reasonOf(error) })
      unhealthy.add(part)
      return {
        healthy: false,
        required: true,
        detail:
          refusalIn(error)?.message ??
          (signal.aborted ? `no answer within ${timeoutMs} ms` : 'does not answer'),
      }
    }
  }

  return {
    /** Checks all parts concurrently. A part that is off is not required: it is shown as unhealthy, but fails nothing. */
    async readiness(): Promise<Readiness> {
      const plugins = PLUGIN_PARTS.filter((part) => readiness[part] !== undefined)
      const checks = [...OWN_PARTS, ...plugins].map(async (part) => [part, await checkPart(part)] as const)
      const [python, ...found] = await Promise.all([
        describePython?.(AbortSignal.timeout(timeoutMs)).catch(() => null),
        ...checks,
      ])
      const details: Readiness['details'] = { ...(await shortages?.()) }
      for (const [part, finding] of found) if (!finding.healthy) details[part] = finding.detail
      // Machines can still use the installation, so readiness does not fail.
      if (licensing?.hasEnded()) details.license = 'has expired: users are rejected; set a new LICENSE'
      if (isLeaving()) details.api = 'stops: use another replica'
      return {
        ready: !isLeaving() && found.every(([, finding]) => finding.healthy || !finding.required),
        services: Object.fromEntries(
          found.map(([part, { healthy }]) => [part, healthy ? 'healthy' : 'unhealthy']),
        ) as Readiness['services'],
        details,
        engines: Object.fromEntries(found.flatMap(sandboxOf)),
        ...(python === undefined ? {} : { python }),
      }
    },
  }
}

/** If several runners fail, the refusal of a runner is reported before an unreachable runner, because it names a remedy. */
const refusalIn = (error: unknown): SidecarRefusal | undefined =>
  error instanceof AggregateError
    ? error.errors.map(refusalIn).find((one) => one !== undefined)
    : error instanceof SidecarRefusal
      ? error
      : undefined

/** An aggregate error (of a host name with two addresses, or of two runners) often has no message of its own. */
const reasonOf = (error: unknown): string => {
  if (error instanceof AggregateError && error.errors.length > 0) return reasonOf(error.errors[0])
  return error instanceof Error ? error.message || error.name : String(error)
}

const rejectedBy = (signal: AbortSignal) =>
  new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })

/** Only sidecars report a sandbox; a plugin reports its version. */
const sandboxOf = ([part, finding]: readonly [Part, Finding]) =>
  (part === 'runner' || part === 'query') && finding.healthy && typeof finding.report === 'string'
    ? [[part, finding.report] as const]
    : []
