// Executions on a Spark Connect server, which outlive broken connections.
import { randomUUID } from 'node:crypto'
import type { MessageInitShape } from '@bufbuild/protobuf'
import type { Client } from '@connectrpc/connect'
import type {
  ExecutePlanResponse,
  PlanSchema,
  SparkConnectService,
} from '../../proto/gen/spark/connect/base_pb.ts'
import { makeBackoff } from '../rpc/http.ts'
import { failureOf, SparkLost } from './failure.ts'

/** A client, and the session and the credential of its calls. */
export interface Channel {
  client: Client<typeof SparkConnectService>
  session: { sessionId: string; userContext: { userId: string; userName: string }; clientType: string }
  headers: HeadersInit | undefined
  signal: AbortSignal
}

const RELEASE_MS = 5_000
/** A stream that was open for this time was no failed try. */
const STEADY_MS = 5_000
/** While a statement is executed, the server is asked in this interval whether it still answers. */
const ASK_MS = 10_000
/** A server that answers no question for this time is lost. */
const ALIVE_MS = 30_000

/**
 * All responses of an execution. A broken stream is continued: the execution goes on in the server. Only `resultComplete` ends
 * an execution, because Sail ends the stream of a cancelled one without an error.
 */
export async function* responsesTo(
  { client, session, headers, signal }: Channel,
  plan: MessageInitShape<typeof PlanSchema>,
): AsyncGenerator<ExecutePlanResponse> {
  const operationId = randomUUID()
  const execution = { ...session, operationId }
  let lastResponseId: string | undefined
  let stream = client.executePlan(
    {
      ...execution,
      plan,
      requestOptions: [{ requestOption: { case: 'reattachOptions', value: { reattachable: true } } }],
    },
    { signal, headers },
  )
  let backoff = makeBackoff(signal)
  for (;;) {
    const openedAt = performance.now()
    try {
      for await (const response of stream) {
        backoff = makeBackoff(signal)
        if (response.responseId !== '') lastResponseId = response.responseId
        if (response.responseType.case === 'resultComplete') {
          const released = { ...execution, release: { case: 'releaseAll' as const, value: {} } }
          await client.releaseExecute(released, { headers, timeoutMs: RELEASE_MS }).catch(() => {})
          return
        }
        yield response
      }
      // Spark ends the stream of a long execution now and then. A server that ends each stream at once is of no use.
      if (performance.now() - openedAt > STEADY_MS) backoff = makeBackoff(signal)
    } catch (error) {
      signal.throwIfAborted()
      const failure = failureOf(error)
      if (!(failure instanceof SparkLost) || backoff.isOver()) throw failure
    }
    signal.throwIfAborted()
    if (backoff.isOver()) throw new SparkLost('the engine ended a statement without an answer')
    await backoff.pause()
    stream = client.reattachExecute({ ...execution, lastResponseId }, { signal, headers })
  }
}

/** Asks until the work has ended whether the server still answers. Otherwise aborts `lost` with SparkLost. */
export async function whileAnswering<T>(
  { client, session, headers }: Channel,
  lost: AbortController,
  work: () => Promise<T>,
): Promise<T> {
  let answeredAt = performance.now()
  const ask = async () => {
    const analyze = { case: 'sparkVersion' as const, value: {} }
    const options = { headers, timeoutMs: ASK_MS }
    const failure = await client.analyzePlan({ ...session, analyze }, options).then(() => null, failureOf)
    if (!(failure instanceof SparkLost)) answeredAt = performance.now()
    else if (performance.now() - answeredAt > ALIVE_MS)
      lost.abort(new SparkLost(`the engine does not answer within ${ALIVE_MS / 1_000} s`))
  }
  const asking = setInterval(ask, ASK_MS)
  try {
    return await work()
  } finally {
    clearInterval(asking)
  }
}

export const queryOf = (query: string) => ({ opType: { case: 'root' as const, value: relationOf(query) } })
const relationOf = (query: string) => ({ relType: { case: 'sql' as const, value: { query } } })
export const statementOf = (statement: string) => ({
  opType: {
    case: 'command' as const,
    value: { commandType: { case: 'sqlCommand' as const, value: { input: relationOf(statement) } } },
  },
})
