// For tests: a real runner process, with a real catalog on Postgres that it calls over HTTP.
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { type Client, createClient } from '@connectrpc/connect'
import { makeTokens } from '../../app/attempt-access/tokens.ts'
import { makeCatalog } from '../../app/composition/catalog.ts'
import { testApp, testLog } from '../../app/composition/test-app.ts'
import { systemClock } from '../../app/core/clock.ts'
import { newId } from '../../app/core/ids.ts'
import { makeNamespaceService } from '../../app/namespaces/service.ts'
import { openObjectStore } from '../../app/objects/open.ts'
import { makeMetadataFiles } from '../../app/versions/metadata-files.ts'
import { headOfMain, mergeBranches, openBranches } from '../../app/versions/store/branches.ts'
import { tableAt } from '../../app/versions/store/tables.ts'
import { openDatabase } from '../../drizzle/client.ts'
import type { TableName } from '../../ground/names.ts'
import {
  type GetRunStatusResponse,
  type LakeAccessSchema,
  RunnerService,
  RunStatus,
  type StreamLogsResponse,
  type SubmitPipelineRequestSchema,
} from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { testDatabase } from '../../tools/service/database.ts'
import { startSidecar } from '../core/testing.ts'
import { transportToSidecar } from '../rpc/testing.ts'
import { holdPort } from '../supervisor/ports.ts'

type RunnerClient = Client<typeof RunnerService>
type Submit = MessageInitShape<typeof SubmitPipelineRequestSchema>

export interface RunnerProcess {
  client: RunnerClient
  url: string
  pid: number
  scratchDir: string
  /** Process ids of its engines and interpreters. */
  engines(): number[]
  stop(): Promise<void>
}

/** Addresses of the test services in this process. Their runners may call them. */
const apiUrls: string[] = []

/** Starts a runner with `startSidecar`. */
export async function startRunner(
  env: Record<string, string> = {},
  through: readonly string[] = [],
): Promise<RunnerProcess> {
  const scratch = await mkdtemp(join(tmpdir(), 'sluice-runner-'))
  const sidecar = await startSidecar(
    fileURLToPath(new URL('./main.ts', import.meta.url)),
    { HOST: '127.0.0.1', SCRATCH_DIR: scratch, API_URLS: apiUrls.join(','), ...env },
    { through, onLine: (line) => process.stderr.write(`runner: ${line}\n`) },
  )
  return {
    client: createClient(RunnerService, transportToSidecar(sidecar.url)),
    url: sidecar.url,
    pid: sidecar.pid,
    scratchDir: scratch,
    engines: sidecar.children,
    stop: async () => {
      await sidecar.stop()
      await rm(scratch, { recursive: true, force: true })
    },
  }
}

/** The current directories of runs and previews, and everything else that they left with engines. */
export async function workDirectoriesOf({ scratchDir }: RunnerProcess): Promise<string[]> {
  const engines = join(scratchDir, 'engines')
  const inside = await Promise.all(
    (await readdir(engines)).map((name) => readdir(join(engines, name)).catch(() => [])),
  )
  // An engine that starts warms up in a directory of this name.
  return inside.flat().filter((name) => !name.startsWith('warm-'))
}

/** Files that runs and previews wrote in engine directories: spilled data, and results that are not yet in the lake. */
export async function filesOf({ scratchDir }: RunnerProcess): Promise<string[]> {
  const all = await readdir(join(scratchDir, 'engines'), { recursive: true, withFileTypes: true })
  return all
    .filter((entry) => entry.isFile() && !entry.parentPath.includes('/warm-'))
    .map(({ parentPath, name }) => `${parentPath}/${name}`)
}

export type TestService = Awaited<ReturnType<typeof openTestService>>

/** The part of the service that runners call, with the actions of a dispatcher around an attempt. */
export async function openTestService() {
  const postgres = await testDatabase()
  const { db, sql, close } = openDatabase(postgres.url, {
    connections: 1,
    rawConnections: 4,
    application: 'test',
  })
  const directory = await mkdtemp(join(tmpdir(), 'sluice-service-'))
  const lakeDir = join(directory, 'objects')
  const objects = await openObjectStore({ kind: 'disk', root: lakeDir })
  const lakeRoot = 's3://sluice/'
  const tokens = makeTokens('a secret of the tests', lakeRoot)
  const catalog = makeCatalog({
    files: makeMetadataFiles({ objects, newId }),
    sql,
    objects,
    tokens,
    lakeRoot,
    vending: null,
    namespaces: makeNamespaceService({ db }),
    columnsOfQuery: null,
    mergeToMain: null,
    clock: systemClock,
    newId,
    log: testLog,
  })
  const app = testApp({ internal: [catalog.routes, catalog.objectRoutes] })
  const requests: string[] = []
  const requestHeaders: Headers[] = []
  const answer = (request: Request) => {
    requestHeaders.push(request.headers)
    requests.push(`${request.method} ${new URL(request.url).pathname}`)
    return app.fetch(request)
  }
  let server = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: answer })
  const url = `http://127.0.0.1:${server.port}`
  apiUrls.push(url)
  const expiresAt = new Date(Date.now() + 3_600_000)
  const access = {
    catalogUrl: `${url}/catalog`,
    objectsUrl: `${url}/lake/objects`,
    catalogId: tokens.catalogId,
    lakeRoot,
  }

  /** Stores the files of a pipeline and opens a run with one attempt. Returns the request for a runner. */
  async function attempt(
    table: TableName,
    files: Record<string, string>,
    options: { landing?: Submit['landing']; attempt?: number; runId?: string } = {},
  ): Promise<Submit & { runId: string; attempt: number; branch: string }> {
    const runId = options.runId ?? newId()
    const number = options.attempt ?? 1
    const branch = `run-${runId}-${number}`
    const prefix = `${table.namespace}/pipelines/${table.layer}/${table.name}/`
    const pins: Record<string, string> = {}
    for (const [path, text] of Object.entries(files))
      pins[prefix + path] = (await objects.put(prefix + path, new TextEncoder().encode(text))).versionId
    const base = await headOfMain(sql)
    const pipelineId = newId()
    await sql.begin(async (tx) => {
      await openBranches(tx, [{ branch, base, runId, attempt: number }])
      await tx`
        insert into pipeline (id, namespace, layer, name, type, draft_snapshot, draft_machine_version, draft_dirty)
        values (${pipelineId}, ${table.namespace}, ${table.layer}, ${`p-${pipelineId}`}, 'sql', '{}', 1, false)`
      await tx`
        insert into run (id, pipeline_id, namespace, layer, pipeline, pipeline_type, trigger, pins, landing_zones,
          snapshot, machine_version, status)
        values (${runId}, ${pipelineId}, ${table.namespace}, ${table.layer}, ${table.name}, 'sql', 'manual',
          ${tx.json(pins)}, '[]', '{}', 1, 'running')`
      await tx`
        insert into run_attempt (run_id, attempt, pipeline_id, branch, base_commit, landing_watermark, runner_url)
        values (${runId}, ${number}, ${pipelineId}, ${branch}, ${base}, 1000000, 'http://127.0.0.1')`
    })
    const token = tokens.attempt({ branch, runId, attempt: number, target: table, expiresAt })
    return {
      namespace: table.namespace,
      layer: table.layer,
      pipelineName: table.name,
      trigger: 'manual',
      type: 'sql',
      runId,
      attempt: number,
      branch,
      files: Object.entries(pins).map(([path, versionId]) => ({ path, versionId })),
      landing: options.landing ?? [],
      lake: { ...access, warehouse: `sluice@${branch}`, token },
      runStartedAt: timestampFromDate(new Date('2026-01-02T03:04:05Z')),
      tableMetadata: (await tableAt(sql, base, table))?.metadataLocation ?? '',
    }
  }

  return {
    sql,
    objects,
    tokens,
    lakeRoot,
    databaseUrl: postgres.url,
    /** The address of the service. */
    url,
    /** The lake directory, for a runner that shares the disk. */
    lakeDir,
    /** Method and path of every request, in order. */
    requests,
    /** Headers of every request, in order. */
    requestHeaders,
    attempt,

    /** Merges a branch as the dispatcher does when nothing prevents it. */
    async merge({ branch, runId }: { branch: string; runId: string }, testedCommit: string) {
      const outcomes = await sql.begin((tx) =>
        mergeBranches(tx, [{ branch, testedCommit, runId, message: 'a run' }]),
      )
      return outcomes.get(branch)?.kind
    },

    /** The lake access of a reader of main. `landing`: a namespace whose landing files a preview may read. */
    async readMain({
      landing,
    }: {
      landing?: string
    } = {}): Promise<MessageInitShape<typeof LakeAccessSchema>> {
      return {
        ...access,
        warehouse: 'sluice',
        token: tokens.read({ commit: await headOfMain(sql), landing, expiresAt }),
      }
    },

    async zone(name: string): Promise<string> {
      const id = newId()
      await sql`insert into landing_zone (id, namespace, name) values (${id}, 'default', ${name})`
      return id
    },

    async upload(zoneId: string, zone: string, filename: string, content: string) {
      const path = `default/landing/${zone}/${filename}`
      const bytes = new TextEncoder().encode(content)
      const { versionId } = await objects.put(path, bytes)
      const id = newId()
      await sql`
        insert into landing_file (id, zone_id, filename, original_name, path, version_id, size_bytes, content_type)
        values (${id}, ${zoneId}, ${filename}, ${filename}, ${path}, ${versionId}, ${bytes.length}, 'text/csv')`
      return { id, filename, object: { path, versionId, sizeBytes: BigInt(bytes.length) } }
    },

    /** Stops the API server while `work` runs. */
    async away(work: () => Promise<void>): Promise<void> {
      const { port } = server
      await server.stop(true)
      // No other process may take the port meanwhile.
      const heldPort = await holdPort('127.0.0.1', port)
      await work()
      await heldPort.release()
      server = Bun.serve({ hostname: '127.0.0.1', port, fetch: answer })
    },

    async close() {
      await server.stop(true)
      await objects.close()
      await close()
      await postgres.drop()
      await rm(directory, { recursive: true })
    },
  }
}

interface Ended {
  facts: GetRunStatusResponse
  /** Messages of the log, without times. */
  lines: string[]
  phases: number[]
}

/** Submits an attempt and follows it to its end, as a dispatcher does. */
export async function runToEnd(client: RunnerClient, submit: Submit): Promise<Ended> {
  const { handle } = await client.submitPipeline(submit)
  const events = await follow(client, handle)
  const facts = await client.getRunStatus({ handle })
  if (facts.status === RunStatus.RUNNING) throw new Error('the stream ended before the attempt')
  return { facts, ...events }
}

export async function follow(client: RunnerClient, handle: string, afterSeq = 0n) {
  const lines: string[] = []
  const phases: number[] = []
  const add = ({ entry, phase }: StreamLogsResponse) => {
    if (entry) lines.push(entry.message)
    if (phase) phases.push(phase)
  }
  for await (const message of client.streamLogs({ handle, afterSeq })) add(message)
  return { lines, phases }
}
