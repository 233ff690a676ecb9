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

const BOOT = 'no-op'
/** As many as anybody sends. */
const ROOM = 1_000

const done = create(GetRunStatusResponseSchema, { bootId: BOOT, status: RunStatus.COMPLETED })
const last = create(StreamLogsResponseSchema, { bootId: BOOT, facts: done })
const accepted = create(SubmitPipelineResponseSchema, { bootId: BOOT, freeSlots: ROOM })

/** What any no-op runner answers, over the network or not. */
export const noOp = {
  submitPipeline: async () => accepted,
  async *streamLogs() {
    yield last
  },
  getRunStatus: async () => done,
}

const refuse = async () => {
  throw new ConnectError('a no-op runner does not do this', Code.Unimplemented)
}

/** In this very process: no network, no encoding. */
export const noOpInProcess = (url: string): Remote<RunnerClient> => ({
  url,
  service: {
    submitPipeline: async () => accepted,
    streamLogs: () => noOp.streamLogs(),
    getRunStatus: async () => done,
    cancelRun: refuse,
    validatePipeline: refuse,
    runQualityTests: refuse,
    describeRunner: refuse,
  },
  check: async () => {},
})
