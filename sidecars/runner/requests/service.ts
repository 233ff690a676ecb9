import type { ServiceImpl } from '@connectrpc/connect'
import type { DescribeRunnerResponse, RunnerService } from '../../../proto/gen/sluice/runner/v1/runner_pb.ts'
import type { ApiAddresses } from '../../rpc/api-addresses.ts'
import type { Attempts } from '../attempt/attempts.ts'
import type { CheckEngine } from '../author/check-engine.ts'
import type { CheckSql } from '../author/sql-check.ts'
import type { Interpreters } from '../interpreter/interpreters.ts'
import { prefixOf } from '../session/pipeline-files.ts'
import { makeAttemptService, testOnWire } from './attempt-service.ts'
import type { TestMain } from './main-tests.ts'
import type { Maintain } from './maintain-table.ts'
import { textFile } from './source-file.ts'
import { makeValidatePipeline } from './validate-pipeline.ts'

// Implements RunnerService of proto/sluice/runner/v1/runner.proto with the functions of this process.

interface ServiceDeps {
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
  return {
    ...makeAttemptService(inKnownLake(attempts, apis)),

    validatePipeline: makeValidatePipeline({ interpreters, checkEngine, checkSql }),

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
