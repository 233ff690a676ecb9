import { expect, test } from 'bun:test'
import { create } from '@bufbuild/protobuf'
import { Code, ConnectError } from '@connectrpc/connect'
import { ValidatePipelineResponseSchema } from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { AppError } from '../core/errors.ts'
import type { RunnerClient } from './clients.ts'
import { makePool } from './pool.ts'
import { makeRunnerPort } from './runner-port.ts'

const { signal } = new AbortController()
const portTo = (runner: Partial<RunnerClient>) =>
  makeRunnerPort(
    // The runner has only the methods that a test calls.
    makePool('runner', [
      { url: 'http://runner', service: runner as RunnerClient, check: () => Promise.resolve(null) },
    ]),
  )
const refusing = (code: Code, message: string) => () => Promise.reject(new ConnectError(message, code))
const refusal = (asked: Promise<unknown>) =>
  asked.then(
    (answer) => answer,
    (error: unknown) => (error instanceof AppError ? [error.status, error.message] : error),
  )

test.each([
  [Code.DeadlineExceeded, 'the tests took longer than 60 s', [400, 'the tests took longer than 60 s']],
  [Code.FailedPrecondition, 'it reads nothing', [400, 'it reads nothing']],
  [Code.ResourceExhausted, 'every engine is in use', [503, 'every engine is in use']],
])("returns the runner's message when it refuses quality tests: %s", async (code, message, expected) => {
  const port = portTo({ runQualityTests: refusing(code, message) })
  expect<unknown>(await refusal(port.runQualityTests({}, signal))).toEqual(expected)
})

test.each([
  [Code.ResourceExhausted, 'every engine is in use'],
  [Code.Aborted, 'engine process ended (start took longer than 20 s)'],
])('a client may repeat tests for which no engine was free: %s', async (code, message) => {
  const asked = portTo({ runQualityTests: refusing(code, message) }).runQualityTests({}, signal)
  const error = await asked.catch((error: unknown) => error)
  expect(error).toMatchObject({ status: 503, code: 'UNAVAILABLE', message, headers: { 'retry-after': '5' } })
})

test('returns null for an unreachable runner and for a late validation', async () => {
  const gone = portTo({ runQualityTests: refusing(Code.Unavailable, 'no') })
  expect(await gone.runQualityTests({}, signal)).toBeNull()
  expect(await portTo({ validatePipeline: refusing(Code.DeadlineExceeded, 'late') }).validate({})).toBeNull()
  const answer = create(ValidatePipelineResponseSchema, { valid: true })
  expect(await portTo({ validatePipeline: async () => answer }).validate({})).toBe(answer)
})

test('a caller that disconnects stops its quality tests on the runner', async () => {
  const caller = new AbortController()
  const heard = Promise.withResolvers<string>()
  const port = portTo({
    runQualityTests: (_request, options) =>
      new Promise((_resolve, reject) => {
        options?.signal?.addEventListener('abort', () => {
          heard.resolve('stop')
          reject(new ConnectError('gone', Code.Canceled))
        })
      }),
  })
  const asked = refusal(port.runQualityTests({}, caller.signal))
  caller.abort()
  expect(await heard.promise).toBe('stop')
  expect(await asked).toEqual([503, expect.any(String)])
})
