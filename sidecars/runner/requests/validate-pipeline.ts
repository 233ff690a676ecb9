import { Code, ConnectError, type ServiceImpl } from '@connectrpc/connect'
import { LAYERS, layerOf } from '../../../ground/names.ts'
import { type ValidationReport, validatePublish } from '../../../lake/pipeline/validate.ts'
import type { RunnerService, ValidatePipelineRequest } from '../../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { EngineEnded } from '../../engine/engine-process.ts'
import type { CheckEngine } from '../author/check-engine.ts'
import type { CheckSql } from '../author/sql-check.ts'
import { EnginesBusy } from '../engine/engine-lease.ts'
import { collectIn } from '../engine/template-process.ts'
import { makeSyntaxCheck, type SyntaxReport } from '../interpreter/check.ts'
import type { Interpreters } from '../interpreter/interpreters.ts'
import { prefixOf } from '../session/pipeline-files.ts'
import { textFile } from './source-file.ts'

/** Makes the RPC that checks the files of a draft before they are published: configuration, templates, SQL and Python syntax. */
export function makeValidatePipeline({
  interpreters,
  checkEngine,
  checkSql,
}: {
  interpreters: Interpreters
  checkEngine: () => CheckEngine
  checkSql: CheckSql
}): ServiceImpl<typeof RunnerService>['validatePipeline'] {
  const checkSyntax = makeSyntaxCheck(interpreters)
  return async (request, { signal }) => {
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
  }
}

function publishInput(request: ValidatePipelineRequest): Parameters<typeof validatePublish>[0] {
  const { namespace, pipelineName: name, type } = request
  const layer = layerOf(request.layer)
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
