import { Type as t } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { limits } from '../core/limits.ts'
import { ErrorBody } from '../core/names.ts'
import { pageOf, setLink, WholeListQuery } from '../core/pagination.ts'
import { visibleTo } from '../http/exchange.ts'
import {
  CreateSchedule,
  Schedule,
  ScheduleCreated,
  ScheduleList,
  SchedulePath,
  UpdateSchedule,
} from './schema.ts'
import type { ScheduleService } from './service.ts'

export const scheduleRoutes = (schedules: ScheduleService) =>
  new Elysia({ prefix: '/schedules', tags: ['schedules'] })
    .get(
      '',
      async ({ query, request, set }) => {
        const page = pageOf(query, limits.listCap)
        const list = await schedules.list(page, await visibleTo(request))
        setLink(set, request.url, page, list.total)
        return list
      },
      {
        query: WholeListQuery,
        response: { 200: ScheduleList },
        detail: { operationId: 'listSchedules', summary: 'List schedules', description: 'Oldest first.' },
      },
    )
    .post('', async ({ body, status }) => status(201, await schedules.create(body)), {
      body: CreateSchedule,
      response: { 201: ScheduleCreated, 400: ErrorBody, 404: ErrorBody },
      detail: {
        operationId: 'createSchedule',
        summary: 'Create a schedule',
        description: [
          'The older way to run a pipeline by the clock; a `cron` trigger is the newer one. Looked at every 30 seconds.',
          'After downtime one run catches up for all that were missed. A time that comes while a run of the pipeline is',
          'pending or running is passed over, as it is while nothing is published.',
        ].join(' '),
      },
    })
    .get('/:id', ({ params }) => schedules.get(params.id), {
      params: SchedulePath,
      response: { 200: Schedule, 404: ErrorBody },
      detail: {
        operationId: 'getSchedule',
        summary: 'Get a schedule',
        description: 'With its last and its next time.',
      },
    })
    .put('/:id', ({ params, body }) => schedules.update(params.id, body), {
      params: SchedulePath,
      body: UpdateSchedule,
      response: { 200: Schedule, 400: ErrorBody, 404: ErrorBody },
      detail: {
        operationId: 'updateSchedule',
        summary: 'Update a schedule',
        description: 'Another cron text, and the end of a pause, count from now on.',
      },
    })
    .delete(
      '/:id',
      async ({ params, status }) => {
        await schedules.remove(params.id)
        return status(204, undefined)
      },
      {
        params: SchedulePath,
        response: { 204: t.Void(), 404: ErrorBody },
        detail: {
          operationId: 'deleteSchedule',
          summary: 'Delete a schedule',
          description: 'Runs that it has requested go on.',
        },
      },
    )
