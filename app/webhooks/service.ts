import type { Sql } from '../../drizzle/client.ts'
import { AppError, invalid } from '../http/errors.ts'
import type { NewId } from '../ids.ts'
import { limits } from '../limits.ts'
import { hashOfToken } from '../triggers/service.ts'
import { answerCalls, makeCalls } from './calls.ts'

export interface WebhookDeps {
  sql: Sql
  newId: NewId
  /** A hint for the dispatcher; the sweep finds what a lost one missed. */
  nudge(): void
}

export type WebhookService = ReturnType<typeof makeWebhookService>

export function makeWebhookService({ sql, newId, nudge }: WebhookDeps) {
  const ask = makeCalls((hashes) => answerCalls(sql, hashes, newId))

  /** Null: the call carries no token. The token itself goes no further than its hash. */
  async function call(token: string | null) {
    if (token === null)
      throw invalid('X-Webhook-Token', 'is required (or Authorization: Bearer with the token)')
    const asked = ask(hashOfToken(token))
    if (asked === null) throw tooMany('too many webhook calls are waiting', 1)
    const answer = await asked
    switch (answer.kind) {
      case 'requested':
        nudge()
        return { run_id: answer.runId }
      case 'unknown':
        throw new AppError(404, 'NOT_FOUND', 'no webhook has this token')
      case 'unpublished':
        throw new AppError(
          400,
          'INVALID_ARGUMENT',
          `pipeline ${answer.pipeline} has never been published, so nothing but people can run it`,
        )
      case 'cooling':
        throw tooMany('the trigger is cooling down', answer.retryAfterSeconds)
      case 'full':
        throw tooMany(
          `pipeline ${answer.pipeline} has ${limits.waitingRunsPerPipeline} runs waiting already`,
          FULL_RETRY_SECONDS,
        )
    }
  }

  return { call }
}

const FULL_RETRY_SECONDS = 60

const tooMany = (why: string, retryAfterSeconds: number) =>
  new AppError(429, 'RATE_LIMITED', why, { headers: { 'retry-after': String(retryAfterSeconds) } })
