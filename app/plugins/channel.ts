// The connection to one plugin. Every call carries the shared token. Its time, its response size and the number of concurrent
// calls are limited. Every failure has the same result: there is no answer, so nothing is allowed.
import type { DescService } from '@bufbuild/protobuf'
import { type CallOptions, type Client, Code, ConnectError, createClient } from '@connectrpc/connect'
import { makeSlots, TooMany } from '../../ground/process/slots.ts'
import { PluginService, PluginStatus } from '../../proto/gen/sluice/plugin/v1/plugin_pb.ts'
import { sendsToken } from '../../proto/sidecar-token.ts'
import { isPlainText } from '../auth/access-tokens.ts'
import type { Clock } from '../core/clock.ts'
import { AppError, unavailable } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import type { Log } from '../core/log.ts'
import { observed, type RpcObserver, transportTo } from '../rpc/clients.ts'
import { boundedFetch } from './bounded-fetch.ts'
import { Unusable } from './messages.ts'

/** Limits of one response: time, and bytes, which are enough for 100,000 ids. */
const PLUGIN_TIMEOUT_MS = 3_000
const ANSWER_BYTES = 4_194_304
/** Concurrent calls of one plugin, and calls that may wait. The HTTP client of an API process makes 256 calls in total. */
export const CALLS_UNDER_WAY = 32
export const CALLS_WAITING = 1_000
/** Failures of a plugin are logged at most this often. */
const LOG_EVERY_MS = 10_000
/** Longest version that a plugin may report. */
const VERSION_LENGTH = 64

export type PluginKind = 'auth' | 'sharing' | 'enforcement'

interface PluginAddress {
  kind: PluginKind
  url: string
  /** The secret that identifies this service to the plugin. */
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
   * Makes one call and reads its answer. Rejects with an AppError (503) when no usable answer arrives in time. An AppError from
   * `call` is rethrown.
   */
  call<Answer>(call: (options: CallOptions) => Promise<Answer>): Promise<Answer>
  /** Resolves to the version of a plugin that is serving; otherwise rejects. Concurrent callers share one call. */
  check(): Promise<string>
}

export function makeChannel(
  { kind, url, token }: PluginAddress,
  { log, clock, observe, timeoutMs = PLUGIN_TIMEOUT_MS }: ChannelDeps,
): Channel {
  const readMaxBytes = ANSWER_BYTES
  // JSON, so that a plugin needs only an HTTP server.
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
    if (status !== PluginStatus.SERVING) throw new Error('the plugin reports that it is not serving')
    return isPlainText(version, VERSION_LENGTH) ? version : ''
  }

  return {
    client: (service) => createClient(service, transport),
    async call(call) {
      const signal = AbortSignal.timeout(timeoutMs)
      try {
        const free = await slots.acquire(signal)
        try {
          const response = await call({ signal, timeoutMs })
          report(null)
          return response
        } finally {
          free()
        }
      } catch (error) {
        if (error instanceof AppError) throw error
        report(signal.aborted ? `no response within ${timeoutMs} ms` : reasonOf(error))
        // The error has no cause: the plugin's text may repeat the credential that it was sent.
        throw unavailable(`the ${kind} plugin`)
      }
    },
    // Everyone may check the health at any rate, so concurrent checks share one call.
    check() {
      checking ??= check().finally(() => {
        checking = null
      })
      return checking
    },
  }
}

/** A reason in words of this service only, because an answer may repeat the credential of its request. */
function reasonOf(error: unknown): string {
  if (error instanceof Unusable || error instanceof TooMany) return error.message
  return `the call failed with ${Code[ConnectError.from(error).code]}`
}

/** Logs one line when the plugin starts to fail and one when it recovers, at most one per interval. */
function makeReport(kind: PluginKind, { log, clock }: Pick<ChannelDeps, 'log' | 'clock'>) {
  let lastFailure: string | null = null
  let loggedMs = Number.NEGATIVE_INFINITY
  return (failure: string | null) => {
    if (failure === lastFailure || clock.elapsed() - loggedMs < LOG_EVERY_MS) return
    loggedMs = clock.elapsed()
    lastFailure = failure
    if (failure === null) log.info('plugin recovered', { plugin: kind })
    else log.warn('plugin call failed', { plugin: kind, error: failure })
  }
}
