import { Type as t } from '@sinclair/typebox'
import { AsOf, BranchName, REF_NAME } from '../core/lake-version.ts'
import { limits } from '../core/limits.ts'
import { ErrorBody, Instant, literals, nullable, Uuid } from '../core/names.ts'
import { PageQuery, WholeListQuery } from '../core/pagination.ts'
import { GateResult } from '../quality-tests/schema.ts'

/** The longest life of a branch with an expiry: a year. */
const EXPIRY_HOURS_MAX = 8_760

const BranchStatus = literals(['open', 'merged', 'deleted'], { title: 'BranchStatus' })

export const Branch = t.Object(
  {
    name: BranchName,
    base_commit: t.Integer({ description: 'The commit of main that the branch stands on' }),
    head: nullable(t.String({ description: 'Id of the latest commit; null while the branch has none' })),
    commits_ahead: t.Integer({ description: 'Commits of the branch since its opening' }),
    commits_behind: t.Integer({ description: 'Commits of main since `base_commit`' }),
    tables_changed: t.Integer(),
    status: BranchStatus,
    protected: t.Boolean({ description: 'True for main, which cannot be deleted' }),
    description: t.String(),
    created_by: nullable(t.String()),
    created_at: Instant,
    updated_at: Instant,
    is_idle: t.Boolean({ description: 'True for an open branch without a change for 30 days' }),
    expires_at: nullable(Instant),
  },
  { title: 'Branch' },
)
export type Branch = typeof Branch.static

const BranchDraft = t.Object(
  { pipeline: t.String({ examples: ['default.gold.route_delays'] }), run_id: Uuid },
  { title: 'BranchDraft' },
)
export const BranchDetail = t.Composite(
  [
    Branch,
    t.Object({
      drafts: t.Array(BranchDraft, {
        description:
          'Drafts that made tables of the branch and that are not published, each with its run. A merge with `publish_drafts` publishes them.',
      }),
    }),
  ],
  { title: 'BranchDetail' },
)
export type BranchDetail = typeof BranchDetail.static

export const BranchList = t.Object({ branches: t.Array(Branch), total: t.Integer() }, { title: 'BranchList' })
export const BranchPath = t.Object({ branch: BranchName })

export const BranchQuery = t.Composite([
  t.Object({
    status: t.Optional(literals(['open', 'merged', 'deleted'], { description: 'Default open' })),
    search: t.Optional(t.String({ maxLength: 63, description: 'Part of the name', examples: ['late'] })),
  }),
  WholeListQuery,
])
export type BranchQuery = typeof BranchQuery.static

export const CreateBranch = t.Object(
  {
    name: BranchName,
    from: t.Optional(
      t.String({
        pattern: REF_NAME,
        description: 'main or an open branch; default main',
        examples: ['main'],
      }),
    ),
    as_of: t.Optional(AsOf),
    description: t.Optional(t.String({ maxLength: limits.textCharacters })),
    expires_in_hours: t.Optional(t.Integer({ minimum: 1, maximum: EXPIRY_HOURS_MAX, examples: [72] })),
  },
  { title: 'CreateBranch', examples: [{ name: 'late-flights', expires_in_hours: 72 }] },
)
export type CreateBranch = typeof CreateBranch.static

export const MergeBranch = t.Object(
  {
    message: t.Optional(
      t.String({ minLength: 1, maxLength: limits.textCharacters, examples: ['late flights by airport'] }),
    ),
    publish_drafts: t.Optional(
      t.Boolean({
        description:
          'Publish the drafts behind the changed tables in the same transaction, with the files that their runs executed; default false',
      }),
    ),
  },
  { title: 'MergeBranch' },
)
export type MergeBranch = typeof MergeBranch.static
export const Merged = t.Object(
  {
    status: literals(['merged', 'unchanged'], {
      description: 'unchanged: the branch has no change, so it stays open',
    }),
    commit: t.Integer({
      description: 'The commit of main that the merge created; if unchanged, the head of main',
    }),
    tables: t.Array(t.String({ examples: ['default.gold.route_delays'] })),
    published: t.Array(
      t.Object({ pipeline: t.String(), version: t.Integer() }, { title: 'PublishedDraft' }),
      { description: 'The drafts that the merge published' },
    ),
    drafts: t.Array(BranchDraft, {
      description:
        'Drafts that made merged tables and that are not published: runs into main execute other code',
    }),
  },
  { title: 'BranchMerged' },
)
export type Merged = typeof Merged.static
/** The refusal of a merge or rebase. */
export const MergeRefused = t.Composite(
  [
    ErrorBody,
    t.Object({
      results: t.Optional(t.Array(GateResult, { description: 'Results of the tests, if one failed' })),
      conflicts: t.Optional(
        t.Array(t.String({ examples: ['default.gold.route_delays'] }), {
          description: 'Tables that changed on main and on the branch',
        }),
      ),
    }),
  ],
  { title: 'MergeRefused' },
)

export const Commit = t.Object(
  {
    id: Uuid,
    number: nullable(t.Integer({ description: 'Place on main; null for a commit of a branch' })),
    branch: t.String({ description: 'The branch that made the commit' }),
    message: t.String(),
    author: nullable(t.String()),
    run_id: nullable(Uuid),
    build_id: nullable(Uuid),
    tables: t.Array(t.String({ examples: ['default.gold.route_delays'] })),
    created_at: Instant,
  },
  { title: 'Commit' },
)
export type Commit = typeof Commit.static
export const CommitList = t.Object({ commits: t.Array(Commit), total: t.Integer() }, { title: 'CommitList' })
export const CommitQuery = PageQuery

export const Tag = t.Object(
  {
    name: BranchName,
    commit: t.Integer({ description: 'The commit of main that the tag keeps' }),
    description: t.String(),
    created_by: nullable(t.String()),
    created_at: Instant,
  },
  { title: 'Tag' },
)
export type Tag = typeof Tag.static
export const TagList = t.Object({ tags: t.Array(Tag), total: t.Integer() }, { title: 'TagList' })
export const TagPath = t.Object({ name: BranchName })
export const TagQuery = WholeListQuery

export const CreateTag = t.Object(
  {
    name: BranchName,
    as_of: t.Optional(AsOf),
    description: t.Optional(t.String({ maxLength: limits.textCharacters })),
  },
  { title: 'CreateTag', examples: [{ name: 'year-end', as_of: 42 }] },
)
export type CreateTag = typeof CreateTag.static
