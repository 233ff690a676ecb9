import type { ViewMetadata } from '../../../lake/iceberg/views/view.ts'
import { EngineFault } from '../engine/engine-messages.ts'
import { tableFingerprint, viewFingerprint } from '../write/change-fingerprint.ts'
import type { RenderedAttempt } from './render.ts'

// The facts of an attempt whose pipeline says `merge: review`.

/** Adds the fingerprint of the committed change to the facts of the attempt. */
export async function noteReview(
  attempt: RenderedAttempt,
  viewBefore: ViewMetadata | null = null,
): Promise<void> {
  const { context, config } = attempt
  const { facts } = context
  if (config.merge !== 'review' || facts.testedCommit === '') return
  facts.review = {
    change: await fingerprintOf(attempt, viewBefore),
    timeoutHours: config.reviewTimeoutHours,
    isFourEyes: config.reviewers === 'four-eyes',
  }
}

async function fingerprintOf(
  { context, config, resources, target }: RenderedAttempt,
  viewBefore: ViewMetadata | null,
): Promise<string> {
  const { facts, log, signal } = context
  const { lake } = resources
  try {
    if (config.materialized === 'view') {
      const view = await lake.catalog.loadView(target.name)
      if (view !== null) return viewFingerprint(viewBefore, view)
    } else {
      const table = await lake.catalog.load(target.name)
      if (table !== null) return await tableFingerprint(target.table, table, resources, signal)
    }
  } catch (error) {
    if (!(error instanceof EngineFault)) throw error
    log.write(
      'warn',
      `the change has no fingerprint, so an approval holds for this attempt only: ${error.message}`,
    )
  }
  // No other attempt has this commit, so its approval holds for this attempt only.
  return facts.testedCommit
}
