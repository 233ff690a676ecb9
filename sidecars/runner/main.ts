// The runner process accepts attempts of runs over RPC and executes them in engine processes. Its only secret is the token of
// its own port. Each attempt brings a token for the data that it may access.
import { join } from 'node:path'
import { endInOrder } from '../../ground/process/lifeline.ts'
import { startTracing } from '../../ground/telemetry/spans.ts'
import { RUNNER_FEATURES, SPARK_LABEL } from '../../lake/pipeline/config.ts'
import { QueryService } from '../../proto/gen/sluice/query/v1/query_pb.ts'
import { RunnerService } from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { type Log, makeLog, messageOf } from '../core/log.ts'
import { availableBytes, readMachine } from '../core/machine.ts'
import { clearAway, openScratch } from '../core/scratch.ts'
import { EX_CONFIG, SettingsError, withRealDirectories } from '../core/settings.ts'
import { makeShares, memoryAlone } from '../engine/shares.ts'
import { openObjectCache } from '../objects/object-cache.ts'
import { makeApiAddresses } from '../rpc/api-addresses.ts'
import { serveRefusal } from '../rpc/refusal-server.ts'
import { serveRpc } from '../rpc/rpc-server.ts'
import { surviveUndecodableMessages } from '../rpc/undecodable.ts'
import {
  chooseEngineSandbox,
  type EngineView,
  FailedSandbox,
  lakeDirectories,
  NoSandbox,
} from '../sandbox/engine-sandbox.ts'
import { findSpark } from '../spark/engines.ts'
import { makeAttemptExecution } from './attempt/attempt-execution.ts'
import { makeAttempts } from './attempt/attempts.ts'
import { watchDisks } from './attempt/disk-watch.ts'
import { makeCheckEngines } from './author/check-engine.ts'
import { makeSqlCheck } from './author/sql-check.ts'
import { limits } from './core/limits.ts'
import { makeRunEngines } from './engine/engine-leases.ts'
import { makeInterpreters, walkable } from './interpreter/interpreters.ts'
import { makePreview, makePreviewService } from './preview/preview.ts'
import { makeTestMain } from './requests/main-tests.ts'
import { makeMaintain } from './requests/maintain-table.ts'
import { makeRunnerService } from './requests/service.ts'
import { makeLake } from './session/lake-session.ts'
import { parseSettings, type RunnerSettings } from './settings.ts'

const SERVED = { services: [RunnerService, QueryService], readMaxBytes: limits.requestBytes }

async function run(settings: RunnerSettings, log: Log): Promise<void> {
  surviveUndecodableMessages(log)
  const stopTracing = await startTracing(settings.tracing, 'runner')
  const directories = {
    cache: join(settings.scratchDir, 'cache'),
    engines: join(settings.scratchDir, 'engines'),
    inputs: join(settings.scratchDir, 'inputs'),
    python: join(settings.scratchDir, 'python'),
  }
  // The attempts of an earlier process are lost, so nothing reads its files.
  await openScratch(settings.scratchDir, Object.keys(directories), log)
  const cache = await openObjectCache({
    leased: directories.cache,
    shared: settings.objectCache.directory,
    maxBytes: settings.objectCache.maxBytes,
  })
  const pythonDirectory = await walkable(directories.python, log)
  const view: EngineView = {
    readable: [...(await lakeDirectories(settings.lakeDir)), directories.cache, directories.inputs],
    // Engines read the results of interpreters, and write rows for them, in directories that both can access.
    writable: [...new Set([directories.python, pythonDirectory])],
  }
  const sandbox = await chooseEngineSandbox(settings.sandbox, view, log)
  const spark = findSpark(settings, sandbox.step, log)
  const division = {
    total: settings.total,
    floor: { memoryBytes: settings.engine.memoryLimitBytes, threads: settings.engine.threads },
    concurrency: settings.concurrency,
  }
  const pool = makeRunEngines({
    directory: directories.engines,
    inputs: directories.inputs,
    size: settings.engine,
    shares: makeShares({ ...division, availableBytes }),
    // Two more than attempts, previews and checks use: quality tests outside runs and maintenance find an engine too.
    leasesMax:
      settings.concurrency + limits.previewsAtOnce + limits.pythonPreviewsAtOnce + limits.draftChecks + 2,
    sandbox,
    log,
  })
  const interpreters = makeInterpreters({
    directory: directories.python,
    walkable: pythonDirectory,
    mode: settings.sandbox,
    pythonBin: settings.python.bin,
    processLimits: {
      memoryBytes: settings.python.memoryBytes,
      cpuSeconds: settings.python.cpuSeconds,
      fileBytes: limits.pythonFileBytes,
      disk: settings.python.disk,
      files: limits.pythonDirectoryFiles,
    },
    threads: settings.engine.threads,
    log,
  })
  const disks = await watchDisks(
    settings.lakeDir === null ? [settings.scratchDir] : [settings.scratchDir, settings.lakeDir],
    { floorBytes: settings.floorBytes, log },
  )
  const resourceOptions = {
    openLake: makeLake({ lakeDir: settings.lakeDir, cache }),
    pool,
    interpreters,
    pythonLimits: settings.python,
    spark: await spark,
  }
  const attempts = makeAttempts({
    concurrency: settings.concurrency,
    seconds: settings.runSeconds,
    execute: makeAttemptExecution({
      ...resourceOptions,
      outputBytes: settings.outputBytes,
      autoSpillBytes: settings.autoSpillBytes,
    }),
    waitsFor: disks.shortage,
    log,
  })
  const sparkLabels = resourceOptions.spark === null ? [] : [SPARK_LABEL]
  const labels = [...settings.labels, ...RUNNER_FEATURES, ...sparkLabels]
  const apis = makeApiAddresses(settings.apiUrls)
  const service = makeRunnerService({
    apis,
    attempts,
    testMain: makeTestMain(resourceOptions),
    interpreters,
    checkEngine: makeCheckEngines(pool),
    checkSql: makeSqlCheck(resourceOptions.spark !== null),
    maintain: makeMaintain(resourceOptions, attempts),
    offer: { labels, runMemoryBytes: BigInt(memoryAlone(division)) },
  })
  const server = await serveRpc(settings, {
    ...SERVED,
    register: (router) =>
      router
        .service(RunnerService, service)
        .service(QueryService, makePreviewService(makePreview(resourceOptions), apis)),
    isServing: () => pool.isServing(),
    engineSandbox: sandbox.step,
    engineMemory: pool.memory,
    waitsFor: attempts.waitsFor,
  })
  log.info(`listening on ${server.urls.join(' and ')}`, {
    concurrency: settings.concurrency,
    threads: settings.engine.threads,
    memory: `${Math.round(settings.engine.memoryLimitBytes / 1_048_576)}MiB`,
  })

  endInOrder(process.env, async () => {
    // The server stops first: followers must see that the process leaves, not that its attempts fail.
    await server.stop(limits.drainMs)
    disks.stop()
    await Promise.all([pool.stop(), interpreters.stop(), stopTracing()])
    for (const directory of Object.values(directories)) await clearAway(directory, log)
  })
}

try {
  const settings = await withRealDirectories(parseSettings(process.env, readMachine()))
  const log = makeLog('runner', settings.logFormat)
  await run(settings, log).catch(async (error: unknown) => {
    if (!(error instanceof FailedSandbox)) throw error
    log.error('no code of users is executed: SANDBOX=off would execute it without a sandbox', {
      reason: error.message,
    })
    const server = await serveRefusal(settings, SERVED, error.message)
    log.info(`listening on ${server.urls.join(' and ')}`)
    endInOrder(process.env, () => server.stop(limits.drainMs))
  })
} catch (error) {
  process.stderr.write(`runner: ${messageOf(error)}\n`)
  process.exit(error instanceof SettingsError || error instanceof NoSandbox ? EX_CONFIG : 1)
}
