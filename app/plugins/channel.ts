// The way to one plugin. Every call carries the shared token, is bounded in time, in number and in what is read of its answer,
// and whatever goes wrong comes to the same: nobody has answered, so nothing is allowed.
import type { DescService } from '@bufbuild/protobuf'
import { type CallOptions, type Client, Code, ConnectError, createClient } from '@connectrpc/connect'
import { PluginService, PluginStatus } from '../../proto/gen/sluice/plugin/v1/plugin_pb.ts'
import { sendsToken } from '../../proto/sidecar-token.ts'
import { isPlainText } from '../auth/access-tokens.ts'
import type { Clock } from '../core/clock.ts'
import { AppError, unavailable } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import type { Log } from '../core/log.ts'
import { makeSlots, TooMany } from '../core/process/slots.ts'
import { observed, type RpcObserver, transportTo } from '../rpc/clients.ts'
import { boundedFetch } from './bounded-fetch.ts'
import { Unusable } from './messages.ts'

/** One answer of a plugin: time, and bytes, which are enough for 100,000 ids. */
const PLUGIN_TIMEOUT_MS = 3_000
const ANSWER_BYTES = 4_194_304
/** Concurrent calls of one plugin: the HTTP client of an API process makes 256 in all. And calls that wait for their turn. */
export const CALLS_UNDER_WAY = 32
export const CALLS_WAITING = 1_000
/** Trouble with a plugin is logged at most this often. */
const LOG_EVERY_MS = 10_000
/** Characters of a version that a plugin names. */
const VERSION_LENGTH = 64

export type PluginKind = 'auth' | 'sharing' | 'enforcement'

export interface PluginAddress {
  kind: PluginKind
  url: string
  /** Tells the plugin that it is we who ask. */
  token: string
}

export interface ChannelDeps {
  log: Log
  clock: Clock
  observe: RpcObserver
  timeoutMs?: number
}

export interface Channel {
  client<Service extends DescService>(service: Service): Client<Service>
  /**
   * Makes one call and reads its answer. Rejects with an AppError (503) when there is none in time, or none that `call` can
   * use; an AppError that `call` throws is passed on.
   */
  ask<Answer>(call: (options: CallOptions) => Promise<Answer>): Promise<Answer>
  /** Resolves to the version when the plugin says that it is serving; else rejects. One call is for all who want to know meanwhile. */
  check(): Promise<string>
}

export function makeChannel(
  { kind, url, token }: PluginAddress,
  { log, clock, observe, timeoutMs = PLUGIN_TIMEOUT_MS }: ChannelDeps,
): Channel {
  const readMaxBytes = ANSWER_BYTES
  // JSON, so that a plugin needs no more than an HTTP server.
  const bounds = { isJson: true, fetch: boundedFetch(readMaxBytes), readMaxBytes }
  const transport = transportTo(url, [sendsToken(token), observed(observe)], bounds)
  const slots = makeSlots(CALLS_UNDER_WAY, CALLS_WAITING)
  const health = createClient(PluginService, transport)
  const report = makeReport(kind, { log, clock })
  let checking: Promise<string> | null = null

  async function check(): Promise<string> {
    const options = { signal: AbortSignal.timeout(limits.readinessTimeoutMs) }
    const { status, version } = await health.healthCheck({}, options).catch((error: unknown) => {
      throw new Error(reasonOf(error))
    })
    if (status !== PluginStatus.SERVING) throw new Error('not serving')
    return isPlainText(version, VERSION_LENGTH) ? version : ''
  }

  return {
    client: (service) => createClient(service, transport),
    async ask(call) {
      const signal = AbortSignal.timeout(timeoutMs)
      try {
        const free = await slots.take(signal)
        try {
          const answer = await call({ signal, timeoutMs })
          report(null)
          return answer
        } finally {
          free()
        }
      } catch (error) {
        if (error instanceof AppError) throw error
        report(signal.aborted ? `no answer within ${timeoutMs} ms` : reasonOf(error))
        // Without its cause: that may hold what the plugin has said, and so what it was sent.
        throw unavailable(`the ${kind} plugin`)
      }
    },
    // Anybody may ask how the service is, as often as they like.
    check() {
      checking ??= check().finally(() => {
        checking = null
      })
      return checking
    },
  }
}

/** In words of ours only: an answer may repeat the credential that it was asked about. */
function reasonOf(error: unknown): string {
  if (error instanceof Unusable || error instanceof TooMany) return error.message
  return `the call ended with ${Code[ConnectError.from(error).code]}`
}

/** One line when it begins to fail, one when it answers again, and never more than one in a while. */
function makeReport(kind: PluginKind, { log, clock }: Pick<ChannelDeps, 'log' | 'clock'>) {
  let trouble: string | null = null
  let saidMs = Number.NEGATIVE_INFINITY
  return (now: string | null) => {
    if (now === trouble || clock.elapsed() - saidMs < LOG_EVERY_MS) return
    saidMs = clock.elapsed()
    trouble = now
    if (now === null) log.info(`the ${kind} plugin answers again`)
    else log.warn(`the ${kind} plugin does not answer as it must`, { error: now })
  }
}
