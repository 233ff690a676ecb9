// The rule of main: which changes of a table need a person's decision, and whose decision counts. Pure.
import type { Review } from '../../drizzle/schema/namespace.ts'
import { type TableName, tableKey } from '../../ground/names.ts'
import type { PipelineConfig } from '../../lake/pipeline/config.ts'

/** From the loosest to the strictest. */
export const REVIEWS = ['none', 'any', 'four-eyes'] as const satisfies readonly Review[]

/** The strictest of several rules. An absent rule demands nothing. */
export const strictest = (rules: readonly (Review | null | undefined)[]): Review =>
  REVIEWS.findLast((rule) => rules.includes(rule)) ?? 'none'

/** The rule that a pipeline sets for its own table. */
export const reviewOf = ({ merge, reviewers }: Pick<PipelineConfig, 'merge' | 'reviewers'>): Review =>
  merge === 'review' ? reviewers : 'none'

/** A person's decision that a change becomes a commit of main. */
export interface Decision {
  /** Everybody who made the change. */
  authors: readonly string[]
  /** Null: callers cannot be told apart, as in the community edition. */
  by: string | null
}

/** Whether a change may become a commit of main. Without a decision, a program merges the change as soon as its tests pass. */
export function isAllowed(rule: Review, decision?: Decision): boolean {
  switch (rule) {
    case 'none':
      return true
    case 'any':
      return decision !== undefined
    case 'four-eyes':
      return decision !== undefined && (decision.by === null || !decision.authors.includes(decision.by))
  }
}

/** The first change whose rules demand another decision; null: all changes may become a commit of main. */
export function refusedBy(
  changes: readonly (TableName & { rules: readonly (Review | null)[] })[],
  decision?: Decision,
): { table: string; rule: Review } | null {
  for (const change of changes) {
    const rule = strictest(change.rules)
    if (!isAllowed(rule, decision)) return { table: tableKey(change), rule }
  }
  return null
}

/**
 * Whether a rule may be replaced by another one. Only a decision of a second person replaces `four-eyes` by less. Nobody may
 * decide over a change whose authors are unknown.
 */
export const isReplaceable = (rule: Review, next: Review, { authors, by }: Decision): boolean =>
  rule !== 'four-eyes' || next === rule || by === null || (authors.length > 0 && !authors.includes(by))
