// A session on a Spark Connect server: Spark itself, or Sail. Source: the protocol files in proto/spark/connect.
import { randomUUID } from 'node:crypto'
import { Code, ConnectError, createClient } from '@connectrpc/connect'
import { createGrpcTransport } from '@connectrpc/connect-node'
import { type RecordBatch, tableFromIPC } from 'apache-arrow'
import { AuthorError } from '../../lake/pipeline/author-error.ts'
import {
  type ExecutePlanResponse,
  AnalyzePlanRequest_Explain_ExplainMode as ExplainMode,
  InterruptRequest_InterruptType,
  SparkConnectService,
} from '../../proto/gen/spark/connect/base_pb.ts'
import type { DataType_StructField } from '../../proto/gen/spark/connect/types_pb.ts'
import { type Cost, NO_COST } from '../engine/process-usage.ts'
import { makeBackoff } from '../rpc/http.ts'
import type { SparkAddress } from './address.ts'

/** The server refused a statement, or it failed there. The message is for the author. */
export class SparkFault extends AuthorError {}

/** The server does not answer any more. The statement may have been executed. */
export class SparkLost extends Error {}

/** A running statement: finished and all tasks of its stages so far, and bytes read. */
export interface SparkProgress {
  tasksDone: number
  tasks: number
  bytesRead: number
}

export interface SparkSession {
  /** Sets configuration entries of this session. */
  configure(entries: Readonly<Record<string, string>>): Promise<void>
  /** The columns of a query. The server parses and binds the query, and executes nothing. */
  columnsOf(query: string): Promise<DataType_StructField[]>
  /** The plan of a query, as the server describes it. */
  explain(query: string): Promise<string>
  /** Executes a statement to its end. */
  execute(statement: string, onProgress?: (progress: SparkProgress) => void): Promise<void>
  /** The rows of a query, as batches of Arrow. The caller limits their number in the query. */
  rows(query: string): Promise<RecordBatch[]>
  /** The cost so far, as far as it is known. */
  cost(): Cost
  /** Ends all statements of the session, then the session. Never throws. */
  close(): Promise<void>
}

/** Time for one answer that needs no execution. */
const ANSWER_MS = 60_000
const CLOSE_MS = 5_000
/** A stream that was open for this time was no failed try. */
const STEADY_MS = 5_000
/** The server must answer a ping within this time, even while a statement is executed. */
const PING_MS = 10_000
const MESSAGE_BYTES = 256 * 1_048_576

/**
 * Opens a session, without a call to the server. All functions throw SparkFault, SparkLost, and the signal's reason.
 */
export function openSession({ url, token, userId }: SparkAddress, signal: AbortSignal): SparkSession {
  const transport = createGrpcTransport({
    baseUrl: url,
    pingIntervalMs: PING_MS,
    pingTimeoutMs: PING_MS,
    pingIdleConnection: true,
    readMaxBytes: MESSAGE_BYTES,
  })
  const client = createClient(SparkConnectService, transport)
  const headers = token === null ? undefined : { authorization: `Bearer ${token}` }
  const session = {
    sessionId: randomUUID(),
    userContext: { userId, userName: userId },
    clientType: 'sluice',
  }

  /** Bytes that all statements of the session have read. */
  let bytesRead = 0

  const answered = <T>(call: (options: { signal: AbortSignal; headers?: HeadersInit }) => Promise<T>) =>
    call({ signal: AbortSignal.any([signal, AbortSignal.timeout(ANSWER_MS)]), headers }).catch((error) => {
      signal.throwIfAborted()
      throw failureOf(error)
    })

  /**
   * All responses of an execution. A broken stream is continued: the execution goes on in the server. Only `resultComplete` ends
   * an execution, because Sail ends the stream of a cancelled one without an error.
   */
  async function* responses(query: string, isStatement: boolean): AsyncGenerator<ExecutePlanResponse> {
    const operationId = randomUUID()
    const execution = { ...session, operationId }
    let lastResponseId: string | undefined
    let stream = client.executePlan(
      {
        ...execution,
        plan: isStatement ? statementOf(query) : queryOf(query),
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
            await client.releaseExecute(released, { headers, timeoutMs: CLOSE_MS }).catch(() => {})
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

  return {
    async configure(entries) {
      const pairs = Object.entries(entries).map(([key, value]) => ({ key, value }))
      const operation = { opType: { case: 'set' as const, value: { pairs } } }
      await answered((options) => client.config({ ...session, operation }, options))
    },

    async columnsOf(query) {
      const analyze = { case: 'schema' as const, value: { plan: queryOf(query) } }
      const { result } = await answered((options) => client.analyzePlan({ ...session, analyze }, options))
      const schema = result.case === 'schema' ? result.value.schema : undefined
      if (schema?.kind.case !== 'struct') throw new SparkFault('the engine returned no columns for the query')
      return schema.kind.value.fields
    },

    async explain(query) {
      const value = { plan: queryOf(query), explainMode: ExplainMode.SIMPLE }
      const analyze = { case: 'explain' as const, value }
      const { result } = await answered((options) => client.analyzePlan({ ...session, analyze }, options))
      return result.case === 'explain' ? result.value.explainString : ''
    },

    async execute(statement, onProgress = () => {}) {
      const before = bytesRead
      for await (const { responseType } of responses(statement, true)) {
        if (responseType.case !== 'executionProgress') continue
        const { stages } = responseType.value
        const read = stages.reduce((sum, stage) => sum + Number(stage.inputBytesRead), 0)
        bytesRead = before + read
        onProgress({
          tasksDone: stages.reduce((sum, stage) => sum + Number(stage.numCompletedTasks), 0),
          tasks: stages.reduce((sum, stage) => sum + Number(stage.numTasks), 0),
          bytesRead: read,
        })
      }
    },

    async rows(query) {
      const batches: RecordBatch[] = []
      for await (const { responseType } of responses(query, false))
        if (responseType.case === 'arrowBatch') batches.push(...tableFromIPC(responseType.value.data).batches)
      return batches
    },

    cost: () => ({ ...NO_COST, bytesRead: bytesRead }),

    async close() {
      const options = { headers, timeoutMs: CLOSE_MS }
      const interruptType = InterruptRequest_InterruptType.ALL
      await client.interrupt({ ...session, interruptType }, options).catch(() => {})
      await client.releaseSession(session, options).catch(() => {})
    },
  }
}

const queryOf = (query: string) => ({ opType: { case: 'root' as const, value: relationOf(query) } })
const relationOf = (query: string) => ({ relType: { case: 'sql' as const, value: { query } } })
const statementOf = (statement: string) => ({
  opType: {
    case: 'command' as const,
    value: { commandType: { case: 'sqlCommand' as const, value: { input: relationOf(statement) } } },
  },
})

/** Codes of a server or a connection that has gone. */
const GONE: readonly Code[] = [Code.Unavailable, Code.DeadlineExceeded, Code.Aborted, Code.Canceled]
/** Errors of a server that has restarted, and forgot its sessions and executions. */
const FORGOTTEN = /INVALID_HANDLE\.|operation not found|session not found/i

function failureOf(error: unknown): Error {
  const { code, rawMessage } = ConnectError.from(error)
  const message = rawMessage.trim()
  if (code === Code.Unimplemented)
    return new SparkFault(`the server does not speak this version of Spark Connect: ${message}`)
  if (code === Code.Unauthenticated || code === Code.PermissionDenied)
    return new SparkFault(`the server refuses the session: ${message}`)
  if (GONE.includes(code) || FORGOTTEN.test(message))
    return new SparkLost(`the engine does not answer: ${message}`)
  return new SparkFault(message)
}
