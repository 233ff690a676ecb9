import { Type as t } from '@sinclair/typebox'
import { BranchName } from '../core/lake-version.ts'
import { Instant, literals, nullable, Uuid } from '../core/names.ts'
import { PageQuery } from '../core/pagination.ts'

/** Why something needs attention, in the order of the list. */
export const ATTENTION_KINDS = ['review', 'failed', 'waiting', 'failing_tests', 'behind'] as const
export type AttentionKind = (typeof ATTENTION_KINDS)[number]

export const AttentionItem = t.Object(
  {
    kind: literals(ATTENTION_KINDS, {
      title: 'AttentionKind',
      description:
        '`review`: a run waits for a reviewer. `failed`: no run of the pipeline has succeeded since this failure. `waiting`: a run has been pending for more than a minute. `failing_tests`: the latest ended run succeeded, but a test of severity warn failed. `behind`: main has commits that the branch does not have. The first four speak of runs on main only.',
    }),
    namespace: nullable(t.String(), {
      description: 'Null for a branch, like `layer`, `pipeline` and `run_id`',
    }),
    layer: nullable(t.String()),
    pipeline: nullable(t.String()),
    run_id: nullable(Uuid),
    branch: BranchName,
    since: Instant,
    reason: t.String({ examples: ['quality tests failed: no-nulls (3)'] }),
  },
  { title: 'AttentionItem' },
)
export type AttentionItem = typeof AttentionItem.static

export const Attention = t.Object(
  { items: t.Array(AttentionItem), total: t.Integer() },
  { title: 'Attention' },
)
export const AttentionQuery = PageQuery
export type AttentionQuery = typeof AttentionQuery.static
