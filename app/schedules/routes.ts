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
        detail: {
          operationId: 'listSchedules',
          summary: 'List schedules',
          description: 'Returns the oldest schedules first.',
        },
      },
    )
    .post('', async ({ body, status }) => status(201, await schedules.create(body)), {
      body: CreateSchedule,
      response: { 201: ScheduleCreated, 400: ErrorBody, 404: ErrorBody },
      detail: {
        operationId: 'createSchedule',
        summary: 'Create a schedule',
        description: [
          'A schedule requests runs of a pipeline at fixed times; a `cron` trigger is the newer alternative.',
          'The scheduler checks for due schedules every 30 seconds. After downtime, one run replaces all missed runs.',
          'A due time is skipped while a run of the pipeline is pending or running, or if no version is published.',
        ].join(' '),
      },
    })
    .get('/:id', ({ params }) => schedules.get(params.id), {
      params: SchedulePath,
      response: { 200: Schedule, 404: ErrorBody },
      detail: {
        operationId: 'getSchedule',
        summary: 'Get a schedule',
        description: 'Returns the schedule with the time of its last run and its next due time.',
      },
    })
    .put('/:id', ({ params, body }) => schedules.update(params.id, body), {
      params: SchedulePath,
      body: UpdateSchedule,
      response: { 200: Schedule, 400: ErrorBody, 404: ErrorBody },
      detail: {
        operationId: 'updateSchedule',
        summary: 'Update a schedule',
        description:
          'Changes the given fields. After a new cron text or the end of a pause, the next due time is computed from now.',
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
          description: 'Runs that the schedule has requested continue.',
        },
      },
    )
