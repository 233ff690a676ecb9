import { Type as t } from '@sinclair/typebox'
import { limits } from '../core/limits.ts'
import { Instant, literals, NamespaceName, nullable, Uuid, ZoneName } from '../core/names.ts'
import { WholeListQuery } from '../core/pagination.ts'
import { FilePart, FileTypeName } from '../files/schema.ts'

const Description = t.String({
  maxLength: limits.textCharacters,
  examples: ['Flights as the agency publishes them'],
})
const ExpectedSchema = t.String({
  maxLength: limits.textCharacters,
  description: 'Expected columns, in the form `col:type,col:type`',
  examples: ['code:VARCHAR,delay:INTEGER'],
})

export const Zone = t.Object(
  {
    id: Uuid,
    namespace: NamespaceName,
    name: ZoneName,
    description: t.String(),
    owner: nullable(t.String()),
    expected_schema: nullable(t.String()),
    file_count: t.Integer({ description: 'Number of active files' }),
    total_bytes: t.Integer({ description: 'Size of the active files in bytes' }),
    created_at: Instant,
    updated_at: Instant,
  },
  { title: 'LandingZone' },
)
export const ZoneList = t.Object({ zones: t.Array(Zone), total: t.Integer() }, { title: 'LandingZoneList' })
export const ZoneQuery = t.Composite([t.Object({ namespace: t.Optional(NamespaceName) }), WholeListQuery])

export const CreateZone = t.Object(
  {
    namespace: NamespaceName,
    name: ZoneName,
    description: t.Optional(Description),
  },
  { title: 'CreateLandingZone' },
)
export type CreateZone = typeof CreateZone.static
export const ZoneCreated = t.Pick(Zone, ['id', 'namespace', 'name', 'description', 'created_at'], {
  title: 'LandingZoneCreated',
})

export const UpdateZone = t.Object(
  {
    description: t.Optional(Description),
    owner: t.Optional(nullable(t.String({ maxLength: 255 }))),
    expected_schema: t.Optional(nullable(ExpectedSchema)),
  },
  { title: 'UpdateLandingZone' },
)
export type UpdateZone = typeof UpdateZone.static

/** A hundred years: dates can be computed over this span, and no client needs more. */
const AGE_DAYS_MAX = 36_500

export const Lifecycle = t.Object(
  {
    processed_max_age_days: t.Integer({
      minimum: 0,
      maximum: AGE_DAYS_MAX,
      description: 'Days until an archived file is deleted, if `auto_purge` is on. Default 30.',
      examples: [30],
    }),
    auto_purge: t.Boolean({
      description: 'Whether archived files are deleted after `processed_max_age_days`. Default false.',
    }),
  },
  { title: 'Lifecycle' },
)
export type Lifecycle = typeof Lifecycle.static
export const UpdateLifecycle = t.Partial(Lifecycle, { title: 'UpdateLifecycle' })
export type UpdateLifecycle = typeof UpdateLifecycle.static

export const ZonePath = t.Object({ ns: NamespaceName, name: ZoneName })
export const ZoneFilePath = t.Composite([ZonePath, t.Object({ id: Uuid })])

export const LandingFile = t.Object(
  {
    id: Uuid,
    zone_id: Uuid,
    filename: t.String({ examples: ['20260301_064500_flights.csv'] }),
    s3_path: t.String({ examples: ['default/landing/flights/20260301_064500_flights.csv'] }),
    size_bytes: t.Integer(),
    content_type: t.String({ examples: ['text/csv'] }),
    uploaded_at: Instant,
    status: literals(['active', 'quarantined', 'archived'], {
      title: 'LandingFileStatus',
      description: 'Runs read active files only.',
    }),
  },
  { title: 'LandingFile' },
)
export type LandingFile = typeof LandingFile.static
export const LandingFileList = t.Object(
  { files: t.Array(LandingFile), total: t.Integer() },
  { title: 'LandingFileList' },
)
export const UploadLandingFile = t.Object({ file: FilePart }, { title: 'UploadLandingFile' })

const Sample = t.Object(
  {
    path: t.String({ examples: ['default/landing/flights/_samples/flights.csv'] }),
    size: t.Integer(),
    modified: Instant,
    type: FileTypeName,
  },
  { title: 'Sample' },
)
export const SampleList = t.Object({ files: t.Array(Sample), total: t.Integer() }, { title: 'SampleList' })
export const SampleUploaded = t.Object(
  {
    path: Sample.properties.path,
    filename: t.String({ examples: ['flights.csv'] }),
    size: t.Integer(),
    status: t.Literal('uploaded'),
  },
  { title: 'SampleUploaded' },
)
export type SampleUploaded = typeof SampleUploaded.static
export const SamplePath = t.Composite([
  ZonePath,
  t.Object({ filename: t.String({ description: 'The file name of the upload', examples: ['flights.csv'] }) }),
])
