import { Type as t } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { recheckAccess } from '../core/bound.ts'
import { described } from '../core/documented.ts'
import { limits } from '../core/limits.ts'
import { ErrorBody } from '../core/names.ts'
import { pageOf, setLink, WholeListQuery } from '../core/pagination.ts'
import { refOf } from '../core/zone-ref.ts'
import { exchangeOf, visibleTo } from '../http/exchange.ts'
import { IdempotencyHeaders, idempotencyKeyOf } from '../http/idempotency-key.ts'
import { REPEATED_UPLOAD, uploadFormOf } from '../http/upload-form.ts'
import type { Detection } from './detection.ts'
import { inspectionRoutes } from './inspection-routes.ts'
import {
  CreateZone,
  LandingFile,
  LandingFileList,
  Lifecycle,
  SampleList,
  SamplePath,
  SampleUploaded,
  UpdateLifecycle,
  UpdateZone,
  UploadLandingFile,
  Zone,
  ZoneCreated,
  ZoneFilePath,
  ZoneList,
  ZonePath,
  ZoneQuery,
} from './schema.ts'
import type { LandingZoneService } from './service.ts'

const UPLOAD_ERRORS = {
  400: ErrorBody,
  404: ErrorBody,
  409: ErrorBody,
  413: ErrorBody,
  429: ErrorBody,
  507: ErrorBody,
}

export const landingZoneRoutes = (zones: LandingZoneService, detection: Detection) =>
  new Elysia()
    .use(zoneRoutes(zones))
    .use(landingFileRoutes(zones))
    .use(sampleAndLifecycleRoutes(zones))
    .use(inspectionRoutes(zones, detection))

const zoneRoutes = (zones: LandingZoneService) =>
  new Elysia({ prefix: '/landing-zones', tags: ['landing zones'] })
    .get(
      '',
      async ({ query, request, set }) => {
        const page = pageOf(query, limits.listCap)
        const list = await zones.list(query.namespace, page, await visibleTo(request))
        setLink(set, request.url, page, list.total)
        return list
      },
      {
        query: ZoneQuery,
        response: { 200: ZoneList, 400: ErrorBody },
        detail: {
          operationId: 'listLandingZones',
          summary: 'List landing zones',
          description: 'Zones are sorted by namespace and name.',
        },
      },
    )
    .post(
      '',
      async ({ body, request, status }) => status(201, await zones.create(body, exchangeOf(request).access)),
      {
        body: CreateZone,
        response: { 201: ZoneCreated, 400: ErrorBody, 403: ErrorBody, 409: ErrorBody },
        detail: {
          operationId: 'createLandingZone',
          summary: 'Create a landing zone',
          description:
            'Creates an empty zone. Uploads add files, and pipelines read them with `landing_zone()`.',
        },
      },
    )
    .get('/:ns/:name', ({ params }) => zones.get(refOf(params)), {
      params: ZonePath,
      response: { 200: Zone, 404: ErrorBody },
      detail: {
        operationId: 'getLandingZone',
        summary: 'Get a landing zone',
        description: 'The answer includes the number and the size of the active files.',
      },
    })
    .put(
      '/:ns/:name',
      ({ params, body, request }) => zones.update(refOf(params), body, exchangeOf(request).access),
      {
        params: ZonePath,
        body: UpdateZone,
        response: { 200: Zone, 400: ErrorBody, 404: ErrorBody },
        detail: {
          operationId: 'updateLandingZone',
          summary: 'Update a landing zone',
          description:
            'Changes only the fields in the body. Null removes the owner or the expected schema; an empty schema also removes it.',
        },
      },
    )
    .delete(
      '/:ns/:name',
      async ({ params, status }) => {
        await zones.remove(refOf(params))
        return status(204, undefined)
      },
      {
        params: ZonePath,
        response: { 204: t.Void(), 404: ErrorBody },
        detail: {
          operationId: 'deleteLandingZone',
          summary: 'Delete a landing zone',
          description: 'Deletes the zone with all its files, including samples and archived files.',
        },
      },
    )

const landingFileRoutes = (zones: LandingZoneService) =>
  new Elysia({ prefix: '/landing-zones', tags: ['landing zones'] })
    .get(
      '/:ns/:name/files',
      async ({ params, query, request, set }) => {
        const page = pageOf(query, limits.listCap)
        const list = await zones.files(refOf(params), page)
        setLink(set, request.url, page, list.total)
        return list
      },
      {
        params: ZonePath,
        query: WholeListQuery,
        response: { 200: LandingFileList, 404: ErrorBody },
        detail: {
          operationId: 'listLandingFiles',
          summary: 'List the files of a zone',
          description: 'Active files and files in quarantine, newest first. Archived files are not listed.',
        },
      },
    )
    .post(
      '/:ns/:name/files',
      async ({ params, headers, request, status }) => {
        const form = uploadFormOf(request, { isHashed: headers['idempotency-key'] !== undefined })
        const keyOf = (body: object) => idempotencyKeyOf(request, headers, body)
        return status(201, await zones.upload(refOf(params), form, keyOf, () => recheckAccess(request)))
      },
      {
        params: ZonePath,
        headers: IdempotencyHeaders,
        response: { 201: LandingFile, ...UPLOAD_ERRORS },
        detail: {
          ...described({ form: UploadLandingFile }),
          operationId: 'uploadLandingFile',
          summary: 'Upload a file to a zone',
          description: `The stored name begins with the UTC time. If another file has that name, the next free second is used. ${REPEATED_UPLOAD}`,
        },
      },
    )
    .get('/:ns/:name/files/:id', ({ params }) => zones.file(refOf(params), params.id), {
      params: ZoneFilePath,
      response: { 200: LandingFile, 404: ErrorBody },
      detail: {
        operationId: 'getLandingFile',
        summary: 'Get a file of a zone',
        description: 'Returns the metadata of the file. `GET /files/{path}` returns its content.',
      },
    })
    .get(
      '/:ns/:name/files/:id/content',
      async ({ params }) => attachment(await zones.content(refOf(params), params.id)),
      {
        params: ZoneFilePath,
        response: { 200: t.String({ format: 'binary' }), 404: ErrorBody },
        detail: {
          operationId: 'downloadLandingFile',
          summary: 'Download a file of a zone',
          description:
            'Returns the bytes of the file as an attachment with its original name. An archived file can be downloaded too.',
        },
      },
    )
    .post(
      '/:ns/:name/files/:id/quarantine',
      ({ params }) => zones.quarantine(refOf(params), params.id, true),
      {
        params: ZoneFilePath,
        response: { 200: LandingFile, 404: ErrorBody, 409: ErrorBody },
        detail: {
          operationId: 'quarantineLandingFile',
          summary: 'Put a file in quarantine',
          description:
            'Sets aside a file that blocks its zone. No run reads the file, and its bytes stay. 409 if the file is archived, or while a run reads it.',
        },
      },
    )
    .delete(
      '/:ns/:name/files/:id/quarantine',
      async ({ params, status }) => {
        await zones.quarantine(refOf(params), params.id, false)
        return status(204, undefined)
      },
      {
        params: ZoneFilePath,
        response: { 204: t.Void(), 404: ErrorBody, 409: ErrorBody },
        detail: {
          operationId: 'restoreLandingFile',
          summary: 'Take a file out of quarantine',
          description: 'The file is active again, and the next run reads it. No trigger fires.',
        },
      },
    )
    .delete(
      '/:ns/:name/files/:id',
      async ({ params, status }) => {
        await zones.removeFile(refOf(params), params.id)
        return status(204, undefined)
      },
      {
        params: ZoneFilePath,
        response: { 204: t.Void(), 404: ErrorBody },
        detail: {
          operationId: 'deleteLandingFile',
          summary: 'Delete a file of a zone',
          description: 'Removes the file and its content.',
        },
      },
    )

/** A browser saves the bytes and never shows them. The declared response is text; the framework forwards a Response unchanged. */
const attachment = ({ originalName, size, body }: Awaited<ReturnType<LandingZoneService['content']>>) =>
  new Response(body, {
    headers: {
      'content-type': 'application/octet-stream',
      'content-length': String(size),
      'content-disposition': `attachment; filename*=UTF-8''${encodeURIComponent(originalName).replaceAll(/['()*]/g, (c) => `%${c.charCodeAt(0).toString(16)}`)}`,
    },
  }) as unknown as string

const sampleAndLifecycleRoutes = (zones: LandingZoneService) =>
  new Elysia({ prefix: '/landing-zones', tags: ['landing zones'] })
    .get(
      '/:ns/:name/samples',
      async ({ params, query, request, set }) => {
        const page = pageOf(query, limits.listCap)
        const list = await zones.samples.list(refOf(params), page)
        setLink(set, request.url, page, list.total)
        return list
      },
      {
        params: ZonePath,
        query: WholeListQuery,
        response: { 200: SampleList, 404: ErrorBody },
        detail: {
          operationId: 'listSamples',
          summary: 'List the samples of a zone',
          description: 'Previews read samples if the zone has no active files.',
        },
      },
    )
    .post(
      '/:ns/:name/samples',
      async ({ params, headers, request, status }) => {
        const form = uploadFormOf(request, { isHashed: headers['idempotency-key'] !== undefined })
        const keyOf = (body: object) => idempotencyKeyOf(request, headers, body)
        return status(
          201,
          await zones.samples.upload(refOf(params), form, keyOf, () => recheckAccess(request)),
        )
      },
      {
        params: ZonePath,
        headers: IdempotencyHeaders,
        response: { 201: SampleUploaded, ...UPLOAD_ERRORS },
        detail: {
          ...described({ form: UploadLandingFile }),
          operationId: 'uploadSample',
          summary: 'Upload a sample to a zone',
          description: `The sample gets the name of the file, and replaces a sample of that name. ${REPEATED_UPLOAD}`,
        },
      },
    )
    .delete(
      '/:ns/:name/samples/:filename',
      async ({ params, status }) => {
        await zones.samples.remove(refOf(params), params.filename)
        return status(204, undefined)
      },
      {
        params: SamplePath,
        response: { 204: t.Void(), 400: ErrorBody, 404: ErrorBody },
        detail: {
          operationId: 'deleteSample',
          summary: 'Delete a sample of a zone',
          description: 'Removes the sample and its content.',
        },
      },
    )
    .get('/:ns/:name/lifecycle', ({ params }) => zones.lifecycle(refOf(params)), {
      params: ZonePath,
      response: { 200: Lifecycle, 404: ErrorBody },
      detail: {
        operationId: 'getLifecycle',
        summary: 'Get the lifecycle of a zone',
        description: 'The lifecycle says when archived files of the zone are deleted.',
      },
    })
    .put(
      '/:ns/:name/lifecycle',
      async ({ params, body, status }) => {
        await zones.changeLifecycle(refOf(params), body)
        return status(204, undefined)
      },
      {
        params: ZonePath,
        body: UpdateLifecycle,
        response: { 204: t.Void(), 400: ErrorBody, 404: ErrorBody },
        detail: {
          operationId: 'updateLifecycle',
          summary: 'Update the lifecycle of a zone',
          description: 'Changes only the fields in the body. Active files are never deleted by age.',
        },
      },
    )
