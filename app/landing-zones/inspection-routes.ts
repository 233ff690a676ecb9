// The contents of a zone, and the runs that read its files.
import { Elysia } from 'elysia'
import { ErrorBody } from '../core/names.ts'
import { pageOf, setLink } from '../core/pagination.ts'
import { refOf } from '../core/zone-ref.ts'
import { readerBehind, visibleTo } from '../http/exchange.ts'
import { responseOf } from '../query/engine-rows.ts'
import { DETECTED_FILES, DETECTED_ROWS, type Detection } from './detection.ts'
import { ReadList, ReadsQuery, ZoneSchema, ZoneSchemaQuery } from './inspection-schema.ts'
import { ZonePath } from './schema.ts'
import type { LandingZoneService } from './service.ts'

export const inspectionRoutes = (zones: LandingZoneService, detection: Detection) =>
  new Elysia({ prefix: '/landing-zones', tags: ['landing zones'] })
    .get(
      '/:ns/:name/reads',
      async ({ params, query, request, set }) => {
        const page = pageOf(query)
        const list = await zones.reads(refOf(params), query.file_id, page, await visibleTo(request))
        setLink(set, request.url, page, list.total)
        return list
      },
      {
        params: ZonePath,
        query: ReadsQuery,
        response: { 200: ReadList, 400: ErrorBody, 404: ErrorBody },
        detail: {
          operationId: 'listLandingFileReads',
          summary: 'List which runs read which files',
          description:
            'Newest runs first, only runs of pipelines that the caller may see. Each run appears with the files of its latest attempt, also if the run failed. Retention removes runs, and their reads with them.',
        },
      },
    )
    .get(
      '/:ns/:name/schema',
      async ({ params, query, request }) =>
        responseOf(
          await detection.schema(refOf(params), query.file_id, request.signal, readerBehind(request)),
        ),
      {
        params: ZonePath,
        query: ZoneSchemaQuery,
        response: { 200: ZoneSchema, 400: ErrorBody, 404: ErrorBody, 503: ErrorBody },
        detail: {
          operationId: 'getLandingZoneSchema',
          summary: 'Detect the schema of a zone',
          description: `Reads the newest ${DETECTED_FILES} files of one format, as the preview of a new pipeline on the zone does, and compares their columns with the expected schema. Returns the first ${DETECTED_ROWS} rows; \`is_partial\` says whether other files were left out. With \`file_id\`, reads only that file, also an archived one. Files that cannot be read together are 400 with the reason.`,
        },
      },
    )
