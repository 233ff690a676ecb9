import { Code, ConnectError, type ServiceImpl } from '@connectrpc/connect'
import { LAYERS } from '../../lake/pipeline/names.ts'
import { type ValidationReport, validatePublish } from '../../lake/pipeline/validate.ts'
import type {
  DescribeRunnerResponse,
  RunnerService,
  SourceFile,
  ValidatePipelineRequest,
} from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { EngineEnded } from '../engine/engine-process.ts'
import type { ApiAddresses } from '../rpc/api-addresses.ts'
import { makeAttemptService, testOnWire } from './attempt/attempt-service.ts'
import type { Attempts } from './attempt/attempts.ts'
import { prefixOf } from './attempt/pipeline-files.ts'
import type { CheckEngine } from './author/check-engine.ts'
import type { CheckSql } from './author/sql-check.ts'
import { EnginesBusy } from './engine/engine-leases.ts'
import { collectIn } from './engine/template-process.ts'
import { makeSyntaxCheck, type SyntaxReport } from './python/check.ts'
import type { Interpreters } from './python/interpreters.ts'
import type { TestMain } from './write/main-tests.ts'
import type { Maintain } from './write/maintain-table.ts'

// Implements RunnerService of proto/sluice/runner/v1/runner.proto with the functions of this process.

export interface ServiceDeps {
  /** The API addresses that requests may name. */
  apis: ApiAddresses
  attempts: Attempts
  testMain: TestMain
  interpreters: Interpreters
  checkEngine: () => CheckEngine
  checkSql: CheckSql
  maintain: Maintain
  /** The labels of this runner, and the memory of an engine that executes alone. */
  offer: Pick<DescribeRunnerResponse, 'labels' | 'runMemoryBytes'>
}

export function makeRunnerService({
  apis,
  attempts,
  testMain,
  interpreters,
  checkEngine,
  checkSql,
  maintain,
  offer,
}: ServiceDeps): ServiceImpl<typeof RunnerService> {
  const checkSyntax = makeSyntaxCheck(interpreters)
  return {
    ...makeAttemptService(inKnownLake(attempts, apis)),

    async validatePipeline(request, { signal }) {
      const input = publishInput(request)
      const engine = checkEngine()
      try {
        const report = await validatePublish(input, collectIn(engine, signal))
        const source = input.files.find(({ path }) => path === 'pipeline.py')
        if (input.pipeline.type !== 'python' || source === undefined)
          return await checkSql({ input, queries: [], report, engine }, signal)
        const syntax = await checkSyntax(source.text, signal)
        const queries = 'queries' in syntax ? syntax.queries : []
        const withPython = withSyntax(report, source.path, syntax)
        return await checkSql({ input, queries, report: withPython, engine }, signal)
      } catch (error) {
        if (error instanceof EnginesBusy) throw new ConnectError(error.message, Code.ResourceExhausted)
        if (error instanceof EngineEnded) throw new ConnectError(error.message, Code.Aborted)
        throw error
      } finally {
        await engine.release()
      }
    },

    maintainTable: (request, { signal }) =>
      maintain({ ...request, lake: request.lake && apis.checked(request.lake) }, signal),

    async describeRunner() {
      await interpreters.chosen
      const found = interpreters.sandbox()
      if (found === null || 'reason' in found) return offer
      return { ...offer, sandbox: found.step, pythonVersion: found.python.version }
    },

    async runQualityTests(request, { signal }) {
      const files = request.files.map((file) => textFile(file, prefixOf(request)))
      const lake = request.lake && apis.checked(request.lake)
      const { results, tables } = await testMain({ ...request, lake }, files, signal)
      return { results: results.map(testOnWire), tables }
    },
  }
}

/** The same attempts, but `submit` accepts only requests with known API addresses. */
const inKnownLake = (attempts: Attempts, apis: ApiAddresses): Attempts => ({
  ...attempts,
  submit: (request) => attempts.submit({ ...request, lake: request.lake && apis.checked(request.lake) }),
})

function publishInput(request: ValidatePipelineRequest): Parameters<typeof validatePublish>[0] {
  const { namespace, pipelineName: name, type } = request
  const layer = LAYERS.find((candidate) => candidate === request.layer)
  if (layer === undefined)
    throw new ConnectError(`unknown layer '${request.layer}': use ${LAYERS.join(', ')}`, Code.InvalidArgument)
  const ownZone = `${namespace}.`
  const zones = request.knownZones.filter((zone) => zone.startsWith(ownZone))
  return {
    pipeline: { namespace, layer, name, type: type === 'python' ? 'python' : 'sql' },
    files: request.files.map((file) => textFile(file, prefixOf(request))),
    known: {
      tables: new Set(request.knownTables),
      zones: new Set(zones.map((zone) => zone.slice(ownZone.length))),
    },
    ...(request.knownSchemas && {
      schemas: new Map(request.knownSchemas.tables.map(({ table, columns }) => [table, columns])),
    }),
  }
}

function withSyntax(report: ValidationReport, path: string, syntax: SyntaxReport): ValidationReport {
  if ('queries' in syntax) return report
  const files = report.files.map((file) => {
    if (file.path !== path) return file
    return 'error' in syntax
      ? { ...file, valid: false, errors: [...file.errors, syntax.error] }
      : { ...file, warnings: [...file.warnings, `Python syntax not checked: ${syntax.unchecked}`] }
  })
  return { valid: files.every(({ valid }) => valid), files }
}

/** Returns a path below the pipeline's prefix. The path of the request may include the prefix. */
const textFile = ({ path, content }: SourceFile, prefix: string) => ({
  path: path.startsWith(prefix) ? path.slice(prefix.length) : path,
  text: content,
})
