// Entry of the query service: reads the environment, composes the parts, serves, and ends in order.
import { join } from 'node:path'
import { endInOrder } from '../../ground/process/lifeline.ts'
import { startTracing } from '../../ground/telemetry/spans.ts'
import { LAKE_PREFIX } from '../../lake/iceberg/format/location.ts'
import { QueryService } from '../../proto/gen/sluice/query/v1/query_pb.ts'
import { type Log, makeLog, messageOf } from '../core/log.ts'
import { readMachine } from '../core/machine.ts'
import { openScratch } from '../core/scratch.ts'
import { EX_CONFIG, type Settings, SettingsError, withRealDirectories } from '../core/settings.ts'
import { openObjectCache } from '../objects/object-cache.ts'
import { makeApiAddresses } from '../rpc/api-addresses.ts'
import { serveRefusal } from '../rpc/refusal-server.ts'
import { serveRpc } from '../rpc/rpc-server.ts'
import { surviveUndecodableMessages } from '../rpc/undecodable.ts'
import { chooseEngineSandbox, FailedSandbox, lakeDirectories, NoSandbox } from '../sandbox/engine-sandbox.ts'
import type { SandboxMode } from '../sandbox/ladder.ts'
import { makeCommits } from './commits.ts'
import { makeComparisons } from './comparisons.ts'
import { makeEngines } from './engines.ts'
import { limits } from './limits.ts'
import { makeQueries } from './queries.ts'
import { makeRelations } from './relations.ts'
import { makeQueryService } from './service.ts'
import { parseSettings } from './settings.ts'
import { makeReadViewSql } from './stored-views.ts'

const SERVED = { services: [QueryService], readMaxBytes: limits.requestBytes }

async function start(settings: Settings & { sandbox: SandboxMode }, log: Log) {
  const { engine: size, lakeDir } = settings
  surviveUndecodableMessages(log)
  const stopTracing = await startTracing(settings.tracing, 'query')
  const { scratchDir: scratch } = settings
  const enginesDirectory = join(scratch, 'engines')
  const cacheDirectory = join(scratch, 'lake')
  await openScratch(scratch, ['engines', 'lake'], log)
  const cache = await openObjectCache({
    leased: cacheDirectory,
    shared: settings.objectCache.directory,
    maxBytes: settings.objectCache.maxBytes,
  })
  const readable = [...(await lakeDirectories(lakeDir)), cacheDirectory]
  const sandbox = await chooseEngineSandbox(settings.sandbox, { readable, writable: [] }, log)
  const engines = makeEngines({
    directory: enginesDirectory,
    size,
    access: {
      // With a shared lake, the cache has only the positions of deletion vectors.
      allowedDirectories: [cacheDirectory, ...(lakeDir === null ? [] : [join(lakeDir, LAKE_PREFIX)])],
      allowedPaths: [],
    },
    concurrency: settings.concurrency,
    sandbox,
    log,
  })
  const tablesAt = makeCommits()
  const openTable = makeRelations({ lakeDir, cache })
  const readViewSql = makeReadViewSql({ lakeDir, cache })
  const runQuery = makeQueries({ tablesAt, openTable, readViewSql, engines })
  const compareStates = makeComparisons({ lakeDir, cache, engines })
  const service = makeQueryService({
    runQuery,
    compareStates,
    tablesAt,
    apis: makeApiAddresses(settings.apiUrls),
    memoryLimitBytes: size.memoryLimitBytes,
    log,
  })
  const server = await serveRpc(settings, {
    ...SERVED,
    register: (router) => router.service(QueryService, service),
    isServing: engines.isServing,
    engineSandbox: sandbox.step,
    engineMemory: engines.memory,
  })
  log.info(`listening on ${server.urls.join(' and ')}`)
  return async () => {
    await server.stop(limits.drainMs)
    await Promise.all([engines.stop(), stopTracing()])
  }
}

try {
  const settings = await withRealDirectories(parseSettings(process.env, readMachine()))
  const log = makeLog('query', settings.logFormat)
  const stop = await start(settings, log).catch(async (error: unknown) => {
    if (!(error instanceof FailedSandbox)) throw error
    log.error('no code of users is executed: SANDBOX=off would execute it without a sandbox', {
      reason: error.message,
    })
    const server = await serveRefusal(settings, SERVED, error.message)
    log.info(`listening on ${server.urls.join(' and ')}`)
    return () => server.stop(limits.drainMs)
  })
  endInOrder(process.env, stop)
} catch (error) {
  process.stderr.write(`${messageOf(error)}\n`)
  process.exit(error instanceof SettingsError || error instanceof NoSandbox ? EX_CONFIG : 1)
}
