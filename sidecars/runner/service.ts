import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { Code, ConnectError, type ServiceImpl } from '@connectrpc/connect'
import { LAYERS } from '../../lake/pipeline/names.ts'
import { type ValidationReport, validatePublish } from '../../lake/pipeline/validate.ts'
import {
  LogLevel,
  type RunnerService,
  RunPhase,
  RunStatus,
  Severity,
  type SourceFile,
  type SubmitPipelineRequest,
  type ValidatePipelineRequest,
} from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import type { Told } from './attempt-log.ts'
import type { Attempt, Attempts, TestResult } from './attempts.ts'
import type { TestMain } from './main-tests.ts'
import { prefixOf } from './pipeline-files.ts'
import { makeSyntaxCheck, type SyntaxReport } from './python/check.ts'
import type { Interpreters } from './python/interpreters.ts'

// RunnerService of proto/sluice/runner/v1/runner.proto: what it says in the terms of this process.

export interface ServiceDeps {
  attempts: Attempts
  testMain: TestMain
  interpreters: Interpreters
}

export function makeRunnerService({
  attempts,
  testMain,
  interpreters,
}: ServiceDeps): ServiceImpl<typeof RunnerService> {
  const { bootId } = attempts
  const checkSyntax = makeSyntaxCheck(interpreters)
  const known = (handle: string): Attempt => {
    const attempt = attempts.find(handle)
    if (attempt === null) throw new ConnectError(`attempt ${handle} is not known here`, Code.NotFound)
    return attempt
  }
  return {
    submitPipeline(request) {
      checkSubmit(request)
      const attempt = attempts.submit(request)
      if (attempt === null) throw new ConnectError('no room for another attempt now', Code.ResourceExhausted)
      return { handle: attempt.handle, bootId, freeSlots: attempts.freeSlots() }
    },

    getRunStatus: ({ handle }) => factsOf(known(handle), bootId),

    async *streamLogs({ handle, afterSeq }, { signal }) {
      const attempt = known(handle)
      for await (const told of attempt.log.follow(Number(afterSeq), signal)) yield { bootId, ...onWire(told) }
      if (attempt.status !== 'running') yield { bootId, facts: factsOf(attempt, bootId) }
    },

    async cancelRun({ handle }) {
      return { interrupted: (await attempts.find(handle)?.cancel()) ?? false }
    },

    async validatePipeline(request, { signal }) {
      const input = publishInput(request)
      const report = validatePublish(input)
      const source = input.files.find(({ path }) => path === 'pipeline.py')
      if (input.pipeline.type !== 'python' || source === undefined) return report
      return withSyntax(report, source.path, await checkSyntax(source.text, signal))
    },

    async describeRunner() {
      await interpreters.chosen
      const found = interpreters.sandbox()
      if (found === null || 'reason' in found) return {}
      return { sandbox: found.step, pythonVersion: found.python.version }
    },

    async runQualityTests(request, { signal }) {
      const files = request.files.map((file) => textFile(file, prefixOf(request)))
      return { results: (await testMain(request, files, signal)).map(testOnWire) }
    },
  }
}

const factsOf = ({ status, phase, error, facts }: Attempt, bootId: string) => ({
  status: STATUS[status],
  phase: PHASE[phase],
  bootId,
  rowsWritten: BigInt(facts.rowsWritten),
  testedCommit: facts.testedCommit,
  tests: facts.tests.map(testOnWire),
  error,
  landingFileIds: facts.landingFileIds,
  archiveLandingZones: facts.archiveLandingZones,
  maxRetries: facts.maxRetries,
  retryDelaySeconds: facts.retryDelaySeconds,
})

const STATUS = {
  running: RunStatus.RUNNING,
  completed: RunStatus.COMPLETED,
  failed: RunStatus.FAILED,
  cancelled: RunStatus.CANCELLED,
}
const PHASE = { rendering: RunPhase.RENDERING, executing: RunPhase.EXECUTING, testing: RunPhase.TESTING }
const LEVEL = { debug: LogLevel.DEBUG, info: LogLevel.INFO, warn: LogLevel.WARN, error: LogLevel.ERROR }

function onWire(told: Told) {
  switch (told.kind) {
    case 'heartbeat':
      return {}
    case 'phase':
      return { phase: PHASE[told.phase] }
    case 'line': {
      const { seq, at, level, message } = told.line
      return { entry: { seq: BigInt(seq), timestamp: timestampFromDate(at), level: LEVEL[level], message } }
    }
  }
}

const testOnWire = ({ name, severity, passed, value, durationMs, error }: TestResult) => ({
  name,
  severity: severity === 'warn' ? Severity.WARN : Severity.ERROR,
  passed,
  value,
  durationMs: BigInt(durationMs),
  error,
})

function checkSubmit({ runId, attempt, type, lake }: SubmitPipelineRequest): void {
  const problem =
    (runId === '' && 'run_id is empty') ||
    (attempt < 1 && 'attempt must be at least 1') ||
    (type !== 'sql' && type !== 'python' && `type '${type}' is neither sql nor python`) ||
    (lake === undefined && 'lake is missing')
  if (problem) throw new ConnectError(problem, Code.InvalidArgument)
}

function publishInput(request: ValidatePipelineRequest): Parameters<typeof validatePublish>[0] {
  const { namespace, pipelineName: name, type } = request
  const layer = LAYERS.find((known) => known === request.layer)
  if (layer === undefined)
    throw new ConnectError(`there is no layer '${request.layer}'`, Code.InvalidArgument)
  const ownZone = `${namespace}.`
  const zones = request.knownZones.filter((zone) => zone.startsWith(ownZone))
  return {
    pipeline: { namespace, layer, name, type: type === 'python' ? 'python' : 'sql' },
    files: request.files.map((file) => textFile(file, prefixOf(request))),
    known: {
      tables: new Set(request.knownTables),
      zones: new Set(zones.map((zone) => zone.slice(ownZone.length))),
    },
  }
}

function withSyntax(report: ValidationReport, path: string, syntax: SyntaxReport): ValidationReport {
  if (syntax === null) return report
  const files = report.files.map((file) => {
    if (file.path !== path) return file
    return 'error' in syntax
      ? { ...file, valid: false, errors: [...file.errors, syntax.error] }
      : { ...file, warnings: [...file.warnings, `its syntax was not checked: ${syntax.unchecked}`] }
  })
  return { valid: files.every(({ valid }) => valid), files }
}

/** Files are named below the pipeline's prefix; a path that has the prefix means the same. */
const textFile = ({ path, content }: SourceFile, prefix: string) => ({
  path: path.startsWith(prefix) ? path.slice(prefix.length) : path,
  text: content,
})
