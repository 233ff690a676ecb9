import { Type as t } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { ErrorBody } from '../http/names.ts'
import { linkHeader, PageQuery, pageOf } from '../http/pagination.ts'
import { limits } from '../limits.ts'
import {
  CreateZone,
  LandingFile,
  LandingFileList,
  Lifecycle,
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

export const landingZoneRoutes = (zones: LandingZoneService) =>
  new Elysia({ prefix: '/landing-zones', tags: ['landing zones'] })
    .get(
      '',
      async ({ query, request, set }) => {
        const page = pageOf(query, limits.listCap)
        const list = await zones.list(query.namespace, page)
        set.headers.link = linkHeader(request.url, page, list.total)
        return list
      },
      {
        query: ZoneQuery,
        response: { 200: ZoneList, 400: ErrorBody },
        detail: { summary: 'List landing zones', description: 'By namespace and name.' },
      },
    )
    .post('', async ({ body, status }) => status(201, await zones.create(body)), {
      body: CreateZone,
      response: { 201: ZoneCreated, 400: ErrorBody, 409: ErrorBody },
      detail: { summary: 'Create a landing zone' },
    })
    .get('/:ns/:name', ({ params }) => zones.get(refOf(params)), {
      params: ZonePath,
      response: { 200: Zone, 404: ErrorBody },
      detail: { summary: 'Get a landing zone' },
    })
    .put('/:ns/:name', ({ params, body }) => zones.update(refOf(params), body), {
      params: ZonePath,
      body: UpdateZone,
      response: { 200: Zone, 400: ErrorBody, 404: ErrorBody },
      detail: {
        summary: 'Update a landing zone',
        description:
          'Changes the fields that are given; null clears the owner or the expected schema, as an empty schema does.',
      },
    })
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
          summary: 'Delete a landing zone',
          description: 'With all its files, samples and archived ones too.',
        },
      },
    )
    .get(
      '/:ns/:name/files',
      async ({ params, query, request, set }) => {
        const page = pageOf(query, limits.listCap)
        const list = await zones.files(refOf(params), page)
        set.headers.link = linkHeader(request.url, page, list.total)
        return list
      },
      {
        params: ZonePath,
        query: PageQuery,
        response: { 200: LandingFileList, 404: ErrorBody },
        detail: { summary: 'List the active files of a zone', description: 'Newest first.' },
      },
    )
    .post(
      '/:ns/:name/files',
      async ({ params, body, status }) => status(201, await zones.upload(refOf(params), body.file)),
      {
        parse: 'multipart/form-data',
        params: ZonePath,
        body: UploadLandingFile,
        response: { 201: LandingFile, 400: ErrorBody, 404: ErrorBody, 413: ErrorBody },
        detail: {
          summary: 'Upload a file to a zone',
          description:
            'Its stored name is prefixed with the UTC time; a name that is taken gets the next free second.',
        },
      },
    )
    .get('/:ns/:name/files/:id', ({ params }) => zones.file(refOf(params), params.id), {
      params: ZoneFilePath,
      response: { 200: LandingFile, 404: ErrorBody },
      detail: { summary: 'Get a file of a zone' },
    })
    .delete(
      '/:ns/:name/files/:id',
      async ({ params, status }) => {
        await zones.removeFile(refOf(params), params.id)
        return status(204, undefined)
      },
      {
        params: ZoneFilePath,
        response: { 204: t.Void(), 404: ErrorBody },
        detail: { summary: 'Delete a file of a zone' },
      },
    )
    .get('/:ns/:name/lifecycle', ({ params }) => zones.lifecycle(refOf(params)), {
      params: ZonePath,
      response: { 200: Lifecycle, 404: ErrorBody },
      detail: { summary: 'How long a zone keeps what runs have archived' },
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
          summary: 'Change how long a zone keeps what runs have archived',
          description: 'Changes the fields that are given. Active files are never deleted by age.',
        },
      },
    )

const refOf = ({ ns, name }: typeof ZonePath.static) => ({ namespace: ns, name })
