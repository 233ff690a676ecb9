import { Type as t } from '@sinclair/typebox'
import { documentedAs } from '../core/documented.ts'
import { limits } from '../core/limits.ts'
import {
  Instant,
  Layer,
  literals,
  NamespaceName,
  nullable,
  PipelineName,
  PipelinePath,
  Uuid,
} from '../core/names.ts'
import { PageQuery, sortQuery } from '../core/pagination.ts'
import { RunStatus } from '../runs/schema.ts'

/** Maximum of `max_versions`. Each version stores the path and version id of every file. */
const VERSIONS_PER_PIPELINE = 1_000

const PIPELINE_SORT_KEYS = ['created_at', 'updated_at', 'name'] as const
export type PipelineSortKey = (typeof PIPELINE_SORT_KEYS)[number]

/** States by which a list can be filtered. */
const PIPELINE_STATES = ['published', 'unpublished', 'changed', 'failed', 'failing_tests'] as const
export type PipelineState = (typeof PIPELINE_STATES)[number]

const Description = t.String({ maxLength: limits.textCharacters, examples: ['Cleaned flights of 2001'] })
const Message = t.String({ maxLength: limits.textCharacters, examples: ['First version'] })
const Owner = t.String({ maxLength: 255 })
const PipelineType = literals(['sql', 'python'], { title: 'PipelineType' })
const MaxVersions = t.Integer({
  minimum: 1,
  maximum: VERSIONS_PER_PIPELINE,
  description: 'Number of versions to retain; the next publish or rollback deletes older versions',
  examples: [50],
})
const VersionNumber = t.Integer({ minimum: 1 })
const Pins = t.Record(t.String(), t.String(), {
  title: 'FileVersions',
  description: 'Version id in the object store of each file, by path',
})

const LastRun = t.Object(
  { run_id: Uuid, status: documentedAs(t.String(), RunStatus), finished_at: nullable(Instant) },
  { title: 'LastRun' },
)

const listed = {
  id: Uuid,
  namespace: NamespaceName,
  layer: Layer,
  name: PipelineName,
  type: PipelineType,
  owner: nullable(t.String()),
  description: t.String(),
  draft_dirty: t.Boolean({
    description:
      'Whether files were written after the last publish, or differ from the version of a rollback',
  }),
  published_version: nullable(VersionNumber),
  published_at: nullable(Instant),
  max_versions: MaxVersions,
  created_at: Instant,
  updated_at: Instant,
  tags: t.Array(t.String(), { description: 'The `tags` in config.yaml of the published version' }),
  last_run: nullable(LastRun, { description: 'The run on main requested last, in any state' }),
}
const ListedPipeline = t.Object(listed, { title: 'ListedPipeline' })
export const Pipeline = t.Object(
  { ...listed, s3_path: t.String({ examples: ['default/pipelines/silver/flights/'] }) },
  { title: 'Pipeline' },
)
export type Pipeline = typeof Pipeline.static

export const PipelineQuery = t.Composite([
  t.Object({
    namespace: t.Optional(NamespaceName),
    layer: t.Optional(Layer),
    search: t.Optional(t.String({ description: 'Part of the name', maxLength: 128 })),
    tag: t.Optional(t.String({ description: 'A tag of the published version', examples: ['nightly'] })),
    state: t.Optional(
      literals(PIPELINE_STATES, {
        title: 'PipelineState',
        description:
          '`changed`: the draft differs from the published version. `failed`: the latest run on main failed. `failing_tests`: a quality test of the latest run on main failed, of any severity.',
      }),
    ),
  }),
  sortQuery(PIPELINE_SORT_KEYS, { title: 'PipelineSortKey', fallback: 'created_at' }),
  PageQuery,
])
export type PipelineQuery = typeof PipelineQuery.static
export const PipelineList = t.Object(
  { pipelines: t.Array(ListedPipeline), total: t.Integer() },
  { title: 'PipelineList' },
)

export const CreatePipeline = t.Object(
  {
    namespace: NamespaceName,
    layer: Layer,
    name: PipelineName,
    type: t.Optional(PipelineType),
    description: t.Optional(Description),
    source: t.Optional(
      t.String({
        description:
          'Input of the generated source: a table (`layer.name` or `ns.layer.name`) or a landing zone (`name`)',
        examples: ['bronze.flights'],
        maxLength: 512,
      }),
    ),
    max_versions: t.Optional(MaxVersions),
    unique_key: t.Optional(
      t.String({
        description:
          'Columns of the unique key, separated by commas; with a key, the merge strategy is `incremental`',
        maxLength: 2_048,
      }),
    ),
  },
  { title: 'CreatePipeline' },
)
export type CreatePipeline = typeof CreatePipeline.static
export const PipelineCreated = t.Composite(
  [t.Omit(Pipeline, ['last_run']), t.Object({ files_created: t.Array(t.String()) })],
  { title: 'PipelineCreated' },
)

export const UpdatePipeline = t.Object(
  {
    description: t.Optional(Description),
    type: t.Optional(PipelineType),
    owner: t.Optional(nullable(Owner)),
    max_versions: t.Optional(MaxVersions),
  },
  { title: 'UpdatePipeline' },
)
export type UpdatePipeline = typeof UpdatePipeline.static

export const PublishPipeline = t.Optional(
  t.Object({ message: t.Optional(Message) }, { title: 'PublishPipeline' }),
)
const Validation = t.Object(
  {
    valid: t.Boolean(),
    files: t.Array(
      t.Object(
        {
          path: t.String(),
          valid: t.Boolean(),
          errors: t.Array(t.String()),
          warnings: t.Array(t.String()),
        },
        { title: 'FileValidation' },
      ),
    ),
  },
  { title: 'Validation' },
)

export const Published = t.Object(
  {
    status: t.Literal('published'),
    version: VersionNumber,
    message: t.String(),
    versions: Pins,
    validation: nullable(Validation, {
      description: 'Result of the validation with warnings by file; null if no runner was available',
    }),
  },
  { title: 'Published' },
)
export type Published = typeof Published.static

/** The only error with its own shape (specification: Publish). */
export const PublishRefused = t.Object(
  { error: t.String(), validation: Validation },
  { title: 'PublishRefused', description: 'The draft is invalid and was not published' },
)
export type PublishRefused = typeof PublishRefused.static

export const Version = t.Object(
  {
    id: Uuid,
    pipeline_id: Uuid,
    version_number: VersionNumber,
    message: t.String(),
    published_versions: Pins,
    created_at: Instant,
  },
  { title: 'Version' },
)
export const VersionList = t.Object(
  { versions: t.Array(Version), total: t.Integer() },
  { title: 'VersionList' },
)
/** The number is checked as text, so an invalid number is 400 here instead of 404 (specification: Get version). */
export const VersionPath = t.Composite([
  PipelinePath,
  t.Object({ number: documentedAs(t.String(), t.Integer({ minimum: 1, examples: [1] })) }),
])

export const RollbackPipeline = t.Object(
  {
    version: VersionNumber,
    message: t.Optional(Message),
    data: t.Optional(
      t.Boolean({
        description: 'Also restore the table to the result of the latest successful run of this version',
      }),
    ),
  },
  { title: 'RollbackPipeline' },
)
export type RollbackPipeline = typeof RollbackPipeline.static
export const RolledBack = t.Object(
  {
    status: t.Literal('rolled_back'),
    from_version: VersionNumber,
    new_version: VersionNumber,
    message: t.String(),
    commit: t.Optional(
      t.Integer({ description: 'With `data`: the commit of main that has the restored table' }),
    ),
  },
  { title: 'RolledBack' },
)
export type RolledBack = typeof RolledBack.static
