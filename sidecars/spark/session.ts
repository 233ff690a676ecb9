// A session on a Spark Connect server: Spark itself, or Sail. Source: the protocol files in proto/spark/connect.
import { randomUUID } from 'node:crypto'
import { connect } from 'node:net'
import { createClient } from '@connectrpc/connect'
import { createGrpcTransport } from '@connectrpc/connect-node'
import { type RecordBatch, tableFromIPC } from 'apache-arrow'
import {
  AnalyzePlanRequest_Explain_ExplainMode as ExplainMode,
  InterruptRequest_InterruptType,
  SparkConnectService,
} from '../../proto/gen/spark/connect/base_pb.ts'
import type { DataType_StructField } from '../../proto/gen/spark/connect/types_pb.ts'
import { type Cost, NO_COST } from '../core/process-usage.ts'
import type { SparkAddress } from './address.ts'
import { type Channel, queryOf, responsesTo, statementOf, whileAnswering } from './execution.ts'
import { failureOf, SparkFault } from './failure.ts'

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
/** The connection of a closed session ends after this time. */
const IDLE_MS = 30_000
const MESSAGE_BYTES = 256 * 1_048_576

/**
 * Opens a session, without a call to the server. All functions throw SparkFault, SparkLost, and the signal's reason.
 */
export function openSession(
  { url, token, userId }: SparkAddress,
  caller: AbortSignal,
  /** The socket that leads to the address; null: the address itself. */
  socket: string | null = null,
): SparkSession {
  // Pings of HTTP/2 would find a silent server too, but in Bun a late ping ends the process.
  const transport = createGrpcTransport({
    baseUrl: url,
    readMaxBytes: MESSAGE_BYTES,
    idleConnectionTimeoutMs: IDLE_MS,
    ...(socket !== null && { nodeOptions: { createConnection: () => connect(socket) } }),
  })
  const lost = new AbortController()
  const signal = AbortSignal.any([caller, lost.signal])
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

  const channel: Channel = { client, session, headers, signal }
  const watched = <T>(work: () => Promise<T>) => whileAnswering(channel, lost, work)

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

    execute: (statement, onProgress = () => {}) =>
      watched(async () => {
        const before = bytesRead
        for await (const { responseType } of responsesTo(channel, statementOf(statement))) {
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
      }),

    rows: (query) =>
      watched(async () => {
        const batches: RecordBatch[] = []
        for await (const { responseType } of responsesTo(channel, queryOf(query)))
          if (responseType.case === 'arrowBatch')
            batches.push(...tableFromIPC(responseType.value.data).batches)
        return batches
      }),

    cost: () => ({ ...NO_COST, bytesRead }),

    async close() {
      const options = { headers, timeoutMs: CLOSE_MS }
      const interruptType = InterruptRequest_InterruptType.ALL
      await client.interrupt({ ...session, interruptType }, options).catch(() => {})
      await client.releaseSession(session, options).catch(() => {})
    },
  }
}
