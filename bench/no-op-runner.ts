// A runner that has done every attempt as soon as it has it, and changed nothing: what is left is the control plane.
import { create } from '@bufbuild/protobuf'
import { Code, ConnectError } from '@connectrpc/connect'
import type { Remote, RunnerClient } from '../app/rpc/clients.ts'
import {
  GetRunStatusResponseSchema,
  RunStatus,
  StreamLogsResponseSchema,
  SubmitPipelineResponseSchema,
} from '../proto/gen/sluice/runner/v1/runner_pb.ts'
import { makeAttemptService } from '../sidecars/runner/attempt/attempt-service.ts'
import { makeAttempts } from '../sidecars/runner/attempt/attempts.ts'

/** As many as anybody sends. */
const ROOM = 1_000

/** The runner's own attempts and what it says of them over RPC, with nothing to execute. */
export const noOpService = () =>
  makeAttemptService(
    makeAttempts({
      concurrency: ROOM,
      seconds: 3_600,
      execute: async () => ({ gone: Promise.resolve() }),
      log: console,
    }),
  )

const BOOT = 'no-op'
const done = create(GetRunStatusResponseSchema, { bootId: BOOT, status: RunStatus.COMPLETED })
const last = create(StreamLogsResponseSchema, { bootId: BOOT, facts: done })
const accepted = create(SubmitPipelineResponseSchema, { bootId: BOOT, freeSlots: ROOM })

const refuse = async () => {
  throw new ConnectError('a no-op runner does not do this', Code.Unimplemented)
}

/** In this very process: no network, no encoding, one call after the other. */
export const noOpInProcess = (url: string): Remote<RunnerClient> => ({
  url,
  service: {
    submitPipeline: async () => accepted,
    async *streamLogs() {
      yield last
    },
    getRunStatus: async () => done,
    submitPipelines: refuse,
    followRuns: () => {
      throw new ConnectError('a no-op runner does not do this', Code.Unimplemented)
    },
    updateFollowing: refuse,
    cancelRun: refuse,
    validatePipeline: refuse,
    runQualityTests: refuse,
    describeRunner: refuse,
  },
  check: async () => null,
})
