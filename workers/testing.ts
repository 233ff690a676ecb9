// What the dispatcher's tests share: a runner over real HTTP that does what a test tells it, and pipelines to run.

import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { Code, ConnectError } from '@connectrpc/connect'
import { commitToBranch, findBranch } from '../app/catalog/queries.ts'
import { newId, type PipelineId, type RunId } from '../app/ids.ts'
import { makeNotices } from '../app/runs/notices.ts'
import { makeRunService } from '../app/runs/service.ts'
import type { Sql } from '../drizzle/client.ts'
import { store } from '../machines/advance.ts'
import { DRAFT_MACHINE_VERSION, newDraft } from '../machines/draft.ts'
import {
  LogLevel,
  RunnerService,
  RunPhase,
  RunStatus,
  type Severity,
  type SubmitPipelineRequest,
} from '../proto/gen/sluice/runner/v1/runner_pb.ts'
import { serveConnect } from '../sidecars/connect.ts'

/** What an attempt comes to: facts, or a promise of them, which keeps it executing. */
export interface Facts {
  status?: RunStatus
  testedCommit?: string
  rowsWritten?: bigint
  error?: string
  tests?: { name: string; severity: Severity; passed: boolean; value: bigint }[]
  landingFileIds?: string[]
  archiveLandingZones?: boolean
}

export interface ScriptedRunner {
  url: string
  submitted: SubmitPipelineRequest[]
  cancelled: string[]
  /** From now on the runner is another process: it knows none of its attempts. */
  reboot(): void
  stop(): Promise<void>
}

export type Script = (request: SubmitPipelineRequest, signal: AbortSignal) => Promise<Facts> | Facts

/** Throw ConnectError(ResourceExhausted) from `onSubmit` to refuse. */
export function startScriptedRunner(
  script: Script,
  onSubmit: (request: SubmitPipelineRequest) => void = () => {},
  port = 0,
): ScriptedRunner {
  let bootId = newId()
  let attempts = new Map<string, { facts: Promise<Facts>; stop: AbortController }>()
  const submitted: SubmitPipelineRequest[] = []
  const cancelled: string[] = []
  const known = (handle: string) => {
    const attempt = attempts.get(handle)
    if (attempt === undefined) throw new ConnectError('no such attempt', Code.NotFound)
    return attempt
  }
  const server = serveConnect({
    host: '127.0.0.1',
    port,
    services: [RunnerService],
    isServing: () => true,
    readMaxBytes: 1_000_000,
    register: (router) =>
      router.service(RunnerService, {
        submitPipeline(request) {
          onSubmit(request)
          const handle = `${request.runId}:${request.attempt}`
          if (!attempts.has(handle)) {
            submitted.push(request)
            const stop = new AbortController()
            const facts = Promise.resolve(script(request, stop.signal))
            facts.catch(() => {})
            attempts.set(handle, { facts, stop })
          }
          return { handle, bootId }
        },
        async *streamLogs({ handle, afterSeq }) {
          const { facts, stop } = known(handle)
          const boot = bootId
          yield { bootId: boot, phase: RunPhase.RENDERING }
          if (afterSeq < 1n)
            yield {
              bootId: boot,
              phase: RunPhase.EXECUTING,
              entry: {
                seq: 1n,
                level: LogLevel.INFO,
                message: 'executing',
                timestamp: timestampFromDate(new Date()),
              },
            }
          const gone = new Promise((resolve) => stop.signal.addEventListener('abort', resolve))
          await Promise.race([facts, gone])
        },
        async getRunStatus({ handle }) {
          const { facts, stop } = known(handle)
          if (stop.signal.aborted) return { bootId, status: RunStatus.CANCELLED }
          return { bootId, status: RunStatus.COMPLETED, ...(await facts) }
        },
        cancelRun({ handle }) {
          cancelled.push(handle)
          attempts.get(handle)?.stop.abort()
          return { interrupted: attempts.has(handle) }
        },
      }),
  })
  return {
    url: server.url,
    submitted,
    cancelled,
    reboot() {
      const old = attempts
      attempts = new Map()
      bootId = newId()
      for (const { stop } of old.values()) stop.abort()
    },
    stop: () => server.stop(0),
  }
}

/** A published pipeline, as rows; its runs pin nothing, since no script reads files. */
export async function addPipeline(
  sql: Sql,
  name: string,
  { landingZones, nudge }: { landingZones: string[]; nudge(about: 'runRequested' | 'outbox'): void },
) {
  const id = newId() as PipelineId
  await sql`
    insert into pipeline (id, namespace, layer, name, type, draft_snapshot, draft_machine_version, draft_dirty, published_version)
    values (${id}, 'default', 'gold', ${name}, 'sql', ${sql.json({ ...(store(newDraft()) as object) })}, ${DRAFT_MACHINE_VERSION}, false, 1)`
  await sql`
    insert into pipeline_version (id, pipeline_id, version_number, message, pipeline_type, published_versions, landing_zones)
    values (${newId()}, ${id}, 1, '', 'sql', '{}', ${sql.json(landingZones)})`
  const runs = makeRunService({
    sql,
    newId,
    notices: makeNotices(sql, () => {}),
    runnable: async () => ({ pipelineId: id, pipelineType: 'sql', versionNumber: 1, pins: {}, landingZones }),
    nudge,
  })
  const request = async (trigger = 'manual') =>
    (await runs.request({ namespace: 'default', layer: 'gold', pipeline: name, trigger })).run_id as RunId
  return { id, runs, request }
}

/** Commits a new content of the pipeline's table to the attempt's branch, as a runner does, and answers the commit. */
export async function commitContent(sql: Sql, request: SubmitPipelineRequest): Promise<string> {
  const branch = `run-${request.runId}-${request.attempt}`
  const id = newId()
  const contentId = newId()
  await commitToBranch(sql, {
    id,
    branch,
    head: (await findBranch(sql, branch))?.head ?? null,
    table: { namespace: request.namespace, layer: 'gold', name: request.pipelineName },
    tableUuid: newId(),
    snapshotId: '1',
    message: 'test',
    content: {
      contentId,
      metadataLocation: `sluice://lake/${contentId}`,
      columns: [{ name: 'a', type: 'BIGINT' }],
      rowCount: 1,
      sizeBytes: 100,
    },
  })
  return id
}

/** Waits for a fact, asking again and again; the last answer is in the error. */
export async function until<T>(
  ask: () => Promise<T>,
  holds: (answer: T) => boolean,
  timeoutMs = 15_000,
): Promise<T> {
  const giveUpAt = performance.now() + timeoutMs
  for (;;) {
    const answer = await ask()
    if (holds(answer)) return answer
    if (performance.now() > giveUpAt)
      throw new Error(`it did not come to pass; last seen: ${JSON.stringify(answer)}`)
    await new Promise((resolve) => setImmediate(resolve))
  }
}
