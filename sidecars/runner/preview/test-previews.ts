// For tests: requests previews of one pipeline from a runner.
import { ConnectError, createClient } from '@connectrpc/connect'
import type { TableName } from '../../../ground/names.ts'
import { arraysOf } from '../../../lake/engine/test-json.ts'
import { QueryService } from '../../../proto/gen/sluice/query/v1/query_pb.ts'
import { transportToSidecar } from '../../rpc/testing.ts'
import type { RunnerProcess, TestService } from '../testing.ts'

export const PREVIEWED: TableName = { namespace: 'default', layer: 'silver', name: 'previewed' }

export interface PreviewOptions {
  limit?: bigint
  code?: string
  name?: string
  samples?: { namespace: string; zone: string; files: Awaited<ReturnType<TestService['upload']>>[] }[]
  signal?: AbortSignal
}

/** A pipeline with a `pipeline.py` is a Python pipeline. */
export function previewsOf({ url }: RunnerProcess, service: TestService) {
  const client = createClient(QueryService, transportToSidecar(url))
  const { namespace, layer } = PREVIEWED

  async function preview(files: Record<string, string>, options: PreviewOptions = {}) {
    const { limit = 100n, code = '', name = PREVIEWED.name, samples = [], signal } = options
    const answer = await client.previewPipeline(
      {
        ...{ namespace, layer, pipelineName: name, limit, code, samples },
        type: 'pipeline.py' in files ? 'python' : 'sql',
        files: Object.entries(files).map(([path, content]) => ({ path, content })),
        lake: await service.readMain({ landing: namespace }),
      },
      { signal },
    )
    return { ...answer, ...(await arraysOf(answer.arrowIpc, 1_000)) }
  }

  async function refusalOf(files: Record<string, string>, options?: PreviewOptions) {
    const error = await preview(files, options).catch((reason: unknown) => reason)
    if (!(error instanceof ConnectError)) throw new Error('was not refused')
    return { code: error.code, message: error.rawMessage }
  }
  return { preview, refusalOf }
}
