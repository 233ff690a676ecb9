import { LRUCache } from 'lru-cache'
import type { Sql } from '../../drizzle/client.ts'
import { clientTrace } from '../../ground/telemetry/trace.ts'
import { AppError, invalid } from '../core/errors.ts'
import type { NewId } from '../core/ids.ts'
import { limits } from '../core/limits.ts'
import { hashOfToken } from '../triggers/service.ts'
import type { Sender } from '../wire/client-address.ts'
import { type Buckets, type Failures, tooManyRequests } from '../wire/rate-limit.ts'
import { answerCalls, makeCalls, WEBHOOK_CALLS_WAITING } from './calls.ts'

interface WebhookDeps {
  /** Connections for the calls; one transaction answers many calls. */
  sql: Sql
  newId: NewId
  /** A hint for the dispatcher. A sweep finds runs whose hint was lost. */
  nudge(): void
  /** Limits for calls per webhook, and for unknown tokens per sender; null: no limit. */
  calls?: Buckets | null
  failures?: Failures | null
}

export type WebhookService = ReturnType<typeof makeWebhookService>

export function makeWebhookService({ sql, newId, nudge, calls = null, failures = null }: WebhookDeps) {
  const fire = makeCalls((calls) => answerCalls(sql, calls, newId))

  /** Hashes of tokens that were valid. They stay usable from an address that has sent many unknown tokens. */
  const validHashes = new LRUCache<string, true>({ max: limits.cachedBuckets })

  /** A null token: the call has no token. Only the hash of the token leaves this function. */
  async function call(token: string | null, sender: Sender = UNKNOWN) {
    if (token === null)
      throw invalid(
        'X-Webhook-Token',
        'is required: send the token in this header or as Authorization: Bearer',
      )
    const hash = hashOfToken(token)
    requireAllowance(calls?.consume(hash), 'too many calls of this webhook')
    if (!validHashes.has(hash)) requireAllowance(failures?.look(sender), TOO_MANY_UNKNOWN)
    const pending = fire({ hash, trace: clientTrace() })
    if (pending === null)
      throw tooManyRequests(`${WEBHOOK_CALLS_WAITING} webhook calls are waiting, the limit: retry in 1 s`, 1)
    const result = await pending
    if (result.kind === 'unknown') {
      validHashes.delete(hash)
      requireAllowance(failures?.consume(sender), TOO_MANY_UNKNOWN)
    } else validHashes.set(hash, true)
    switch (result.kind) {
      case 'requested':
        nudge()
        return { run_id: result.runId }
      case 'unknown':
        throw new AppError(404, 'NOT_FOUND', 'no webhook has this token')
      case 'unpublished':
        throw new AppError(
          400,
          'INVALID_ARGUMENT',
          `pipeline ${result.pipeline} has never been published: publish it first (POST ${publishPath(result.pipeline)}), then call the webhook again`,
        )
      case 'cooling':
        throw tooManyRequests(
          `the trigger is cooling down: retry in ${result.retryAfterSeconds} s`,
          result.retryAfterSeconds,
        )
      case 'full':
        throw tooManyRequests(
          `pipeline ${result.pipeline} has ${limits.waitingRunsPerPipeline} waiting runs, the limit: retry in ${FULL_RETRY_SECONDS} s`,
          FULL_RETRY_SECONDS,
        )
    }
  }

  return { call }
}

const UNKNOWN: Sender = { address: '', peer: '' }

/** The address that publishes the pipeline `ns.layer.name`. Names contain no dots. */
const publishPath = (pipeline: string) => `/api/v1/pipelines/${pipeline.replaceAll('.', '/')}/publish`

const TOO_MANY_UNKNOWN = 'too many unknown webhook tokens from this address'

function requireAllowance(allowed: ReturnType<Buckets['consume']> | undefined, why: string) {
  if (allowed && allowed.retryAfterSeconds > 0) throw tooManyRequests(why, allowed.retryAfterSeconds)
}

const FULL_RETRY_SECONDS = 60
