import { limits } from '../limits.ts'
import type { Log } from '../log.ts'

/** Resolves when the part answers. The signal ends the wait. */
export type ReadinessCheck = (signal: AbortSignal) => Promise<unknown>

/** What the service depends on (specification, Readiness dependency checks). Null: switched off by configuration. */
export interface ReadinessChecks {
  postgres: ReadinessCheck
  s3: ReadinessCheck
  runner: ReadinessCheck | null
  query: ReadinessCheck | null
}

type Part = keyof ReadinessChecks
type Finding = { healthy: true } | { healthy: false; required: boolean; detail: string }

export interface Readiness {
  ready: boolean
  services: Record<Part, 'healthy' | 'unhealthy'>
  /** Why a part is unhealthy. */
  details: Partial<Record<Part, string>>
}

export type HealthService = ReturnType<typeof makeHealthService>

interface Deps {
  readiness: ReadinessChecks
  log: Log
  timeoutMs?: number
}

export const makeHealthService = ({ readiness, log, timeoutMs = limits.readinessTimeoutMs }: Deps) => ({
  /** Asks all parts at once. A part that is switched off is not required: it shows as unhealthy and fails nothing. */
  async readiness(): Promise<Readiness> {
    const [postgres, s3, runner, query] = await Promise.all([
      examine('postgres', readiness.postgres, { log, timeoutMs }),
      examine('s3', readiness.s3, { log, timeoutMs }),
      examine('runner', readiness.runner, { log, timeoutMs }),
      examine('query', readiness.query, { log, timeoutMs }),
    ])
    const findings = { postgres, s3, runner, query }
    const details: Readiness['details'] = {}
    if (!postgres.healthy) details.postgres = postgres.detail
    if (!s3.healthy) details.s3 = s3.detail
    if (!runner.healthy) details.runner = runner.detail
    if (!query.healthy) details.query = query.detail
    return {
      ready: Object.values(findings).every((finding) => finding.healthy || !finding.required),
      services: {
        postgres: wordFor(postgres),
        s3: wordFor(s3),
        runner: wordFor(runner),
        query: wordFor(query),
      },
      details,
    }
  },
})

/** Anybody may ask, so the reason goes to the log: it may name addresses. */
async function examine(
  part: Part,
  check: ReadinessCheck | null,
  { log, timeoutMs }: { log: Log; timeoutMs: number },
): Promise<Finding> {
  if (check === null) return { healthy: false, required: false, detail: 'switched off' }
  const signal = AbortSignal.timeout(timeoutMs)
  try {
    await Promise.race([check(signal), rejectedBy(signal)])
    return { healthy: true }
  } catch (error) {
    log.warn(`${part} is not ready`, { error: error instanceof Error ? error.message : String(error) })
    return {
      healthy: false,
      required: true,
      detail: signal.aborted ? `no answer within ${timeoutMs} ms` : 'does not answer',
    }
  }
}

const rejectedBy = (signal: AbortSignal) =>
  new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })

const wordFor = (finding: Finding) => (finding.healthy ? 'healthy' : 'unhealthy')
