// What the dispatcher's tests share: a runner over real HTTP that does what a test tells it, and pipelines to run.

import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { Code, ConnectError } from '@connectrpc/connect'
import { commitToBranch, findBranch } from '../app/catalog/store/branches.ts'
import { newId, type PipelineId, type RunId } from '../app/core/ids.ts'
import { makeNotices, makeRunService } from '../app/runs/service.ts'
import type { Sql } from '../drizzle/client.ts'
import { store } from '../machines/advance.ts'
import { DRAFT_MACHINE_VERSION, newDraft } from '../machines/draft.ts'
import {
  type AttemptNewsSchema,
  LogLevel,
  RunnerService,
  RunPhase,
  RunStatus,
  type Severity,
  type SubmitPipelineRequest,
} from '../proto/gen/sluice/runner/v1/runner_pb.ts'
import { serveConnect } from '../sidecars/rpc/connect.ts'

/** What an attempt comes to: facts, or a promise of them, which keeps it executing. */
export interface Facts {
  status?: RunStatus
  testedCommit?: string
  rowsWritten?: bigint
  error?: string
  tests?: { name: string; severity: Severity; passed: boolean; value: bigint }[]
  landingFileIds?: string[]
  isEngineLost?: boolean
  archiveLandingZones?: boolean
}

export interface ScriptedRunner {
  url: string
  submitted: SubmitPipelineRequest[]
  /** How many attempts each call brought that brought several, or could have. */
  batches: number[]
  cancelled: string[]
  /** From now on the runner is another process: it knows none of its attempts. */
  reboot(): void
  stop(): Promise<void>
}

export type Script = (request: SubmitPipelineRequest, signal: AbortSignal) => Promise<Facts> | Facts

/** Throw ConnectError(ResourceExhausted) from `onSubmit` to refuse. `onCancel` may throw a ConnectError, too. */
export function startScriptedRunner(
  script: Script,
  onSubmit: (request: SubmitPipelineRequest) => void = () => {},
  { port = 0, onCancel = () => {} }: { port?: number; onCancel?: (handle: string) => void } = {},
): ScriptedRunner {
  let bootId = newId()
  let attempts = new Map<string, { facts: Promise<Facts>; stop: AbortController }>()
  const submitted: SubmitPipelineRequest[] = []
  const cancelled: string[] = []
  const batches: number[] = []
  let streams = new Map<string, (handle: string, afterSeq: bigint) => void>()
  function submit(request: SubmitPipelineRequest): string {
    onSubmit(request)
    const handle = `${request.runId}:${request.attempt}`
    if (attempts.has(handle)) return handle
    submitted.push(request)
    const stop = new AbortController()
    const facts = Promise.resolve(script(request, stop.signal))
    facts.catch(() => {})
    attempts.set(handle, { facts, stop })
    return handle
  }
  async function factsOf(handle: string) {
    const { facts, stop } = known(handle)
    if (stop.signal.aborted) return { bootId, status: RunStatus.CANCELLED }
    return { bootId, status: RunStatus.COMPLETED, ...(await facts) }
  }
  const executing = () => ({
    seq: 1n,
    level: LogLevel.INFO,
    message: 'executing',
    timestamp: timestampFromDate(new Date()),
  })
  const known = (handle: string) => {
    const attempt = attempts.get(handle)
    if (attempt === undefined) throw new ConnectError('no such attempt', Code.NotFound)
    return attempt
  }
  const server = serveConnect({
    host: '127.0.0.1',
    admit: null,
    port,
    services: [RunnerService],
    isServing: () => true,
    readMaxBytes: 1_000_000,
    register: (router) =>
      router.service(RunnerService, {
        submitPipelines({ requests, streamId }) {
          batches.push(requests.length)
          const results = requests.map((request) => {
            try {
              return { handle: submit(request) }
            } catch (error) {
              return { code: ConnectError.from(error).code }
            }
          })
          const tell = streams.get(streamId)
          for (const { handle } of results) if (handle !== undefined) tell?.(handle, 0n)
          return { results, bootId, isFollowed: tell !== undefined }
        },
        async *followRuns({ streamId, attempts: positions }, { signal }) {
          const boot = bootId
          const own = streams
          const told: MessageInitShape<typeof AttemptNewsSchema>[] = []
          let changed = Promise.withResolvers<void>()
          const push = (news: (typeof told)[number]) => {
            told.push(news)
            changed.resolve()
            changed = Promise.withResolvers()
          }
          const on = new Set<string>()
          const tell = (handle: string, afterSeq: bigint) => {
            if (on.has(handle)) return
            on.add(handle)
            const attempt = attempts.get(handle)
            if (attempt === undefined) return push({ handle, isUnknown: true })
            const entries = afterSeq < 1n ? [executing()] : []
            push({ handle, phases: [RunPhase.RENDERING, RunPhase.EXECUTING], entries })
            const gone = new Promise((resolve) => attempt.stop.signal.addEventListener('abort', resolve))
            void Promise.race([attempt.facts, gone])
              .then(() => factsOf(handle))
              .then((facts) => push({ handle, facts }))
              .catch(() => changed.resolve())
          }
          for (const { handle, afterSeq } of positions) tell(handle, afterSeq)
          own.set(streamId, tell)
          signal.addEventListener('abort', () => changed.resolve())
          try {
            yield { bootId: boot }
            while (!signal.aborted && boot === bootId) {
              const news = changed.promise
              if (told.length > 0) yield { bootId: boot, news: told.splice(0) }
              else await Promise.race([news, new Promise((beat) => setTimeout(beat, 500))])
            }
          } finally {
            own.delete(streamId)
          }
        },
        updateFollowing({ streamId, attempts: positions }) {
          const tell = streams.get(streamId)
          for (const { handle, afterSeq } of positions) tell?.(handle, afterSeq)
          return { isOpen: tell !== undefined }
        },
        cancelRun({ handle }) {
          onCancel(handle)
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
    batches,
    reboot() {
      const old = attempts
      attempts = new Map()
      streams = new Map()
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
