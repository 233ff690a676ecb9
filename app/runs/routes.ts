import { Type as t } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { described } from '../core/documented.ts'
import { limits } from '../core/limits.ts'
import { ErrorBody } from '../core/names.ts'
import { itemsOn, pageOf, setLink, WholeListQuery } from '../core/pagination.ts'
import { acceptsEvents, eventStream, lastEventId } from '../http/event-stream.ts'
import { callerNameOf, exchangeOf, streamClientOf, visibleTo } from '../http/exchange.ts'
import { IdempotencyHeaders, idempotencyKeyOf } from '../http/idempotency-key.ts'
import type { RunFeeds } from './feed.ts'
import {
  Approve,
  CreateRun,
  Reject,
  Run,
  RunAccepted,
  RunApproved,
  RunCancelled,
  RunInputs,
  RunList,
  RunLogEvents,
  RunLogs,
  RunPath,
  RunQuery,
  RunRejected,
  RunTests,
} from './schema.ts'
import type { RunService } from './service.ts'

export const runRoutes = (runs: RunService, feeds: RunFeeds) =>
  new Elysia().use(requestRoutes(runs, feeds)).use(detailRoutes(runs)).use(reviewRoutes(runs))

const requestRoutes = (runs: RunService, feeds: RunFeeds) =>
  new Elysia({ prefix: '/runs', tags: ['runs'] })
    .get(
      '',
      async ({ query, request, set }) => {
        const { page, ...body } = await runs.list(query, await visibleTo(request))
        setLink(set, request.url, page, body.total)
        return body
      },
      {
        query: RunQuery,
        response: { 200: RunList, 400: ErrorBody },
        detail: {
          operationId: 'listRuns',
          summary: 'List runs',
          description: 'Returns the newest runs first unless `sort` or `order` is given.',
        },
      },
    )
    .post(
      '',
      async ({ body, headers, request, status }) =>
        status(
          202,
          await runs.request(body, idempotencyKeyOf(request, headers, body), callerNameOf(request)),
        ),
      {
        body: CreateRun,
        headers: IdempotencyHeaders,
        response: { 202: RunAccepted, 400: ErrorBody, 404: ErrorBody, 409: ErrorBody, 429: ErrorBody },
        detail: {
          operationId: 'createRun',
          summary: 'Request a run',
          description:
            'Pins the published version, or the draft if no version is published, and queues the run. Runs of one pipeline execute one at a time, oldest first. A request repeated with its `Idempotency-Key` within 24 hours returns the same run. The key with a different request is 409.',
        },
      },
    )
    .get('/:id', ({ params }) => runs.get(params.id), {
      params: RunPath,
      response: { 200: Run, 404: ErrorBody },
      detail: {
        operationId: 'getRun',
        summary: 'Get a run',
        description:
          'Returns the run with its error, the commit of main that it read, and the commit that it created.',
      },
    })
    .post('/:id/cancel', ({ params }) => runs.cancel(params.id), {
      params: RunPath,
      response: { 200: RunCancelled, 404: ErrorBody, 409: ErrorBody },
      detail: {
        operationId: 'cancelRun',
        summary: 'Cancel a run',
        description: 'Interrupts the SQL of the run and closes its branch. A run that has ended is 409.',
      },
    })
    .get(
      '/:id/logs',
      async ({ params, headers, request }) => {
        if (!acceptsEvents(headers.accept)) return runs.logs(params.id)
        // An unknown run is 404 before a stream opens.
        if (!feeds.isFollowed(params.id)) await runs.get(params.id)
        const stream = feeds.follow(params.id, lastEventId(headers['last-event-id']), streamClientOf(request))
        // The declared response is the JSON body; the framework forwards a Response unchanged.
        return eventStream(stream) as unknown as typeof RunLogs.static
      },
      {
        params: RunPath,
        response: { 200: RunLogs, 404: ErrorBody, 429: ErrorBody },
        detail: {
          ...described({ events: RunLogEvents }),
          operationId: 'getRunLogs',
          summary: 'Read or follow the log of a run',
          description:
            'Returns JSON. With `Accept: text/event-stream`, returns a stream of `log` events, live while the run is active, and one `status` event at its end. `Last-Event-ID` resumes the stream.',
        },
      },
    )

const detailRoutes = (runs: RunService) =>
  new Elysia({ prefix: '/runs', tags: ['runs'] })
    .get(
      '/:id/tests',
      async ({ params, query, request, set }) => {
        const page = pageOf(query, limits.listCap)
        const tests = await runs.tests(params.id)
        setLink(set, request.url, page, tests.total)
        return { ...tests, results: itemsOn(page, tests.results) }
      },
      {
        params: RunPath,
        query: WholeListQuery,
        response: { 200: RunTests, 404: ErrorBody },
        detail: {
          operationId: 'getRunTests',
          summary: 'Get the test results of a run',
          description: 'Returns the results of the latest attempt that executed its quality tests.',
        },
      },
    )
    .get('/:id/inputs', ({ params }) => runs.inputs(params.id), {
      params: RunPath,
      response: { 200: RunInputs, 404: ErrorBody },
      detail: {
        operationId: 'getRunInputs',
        summary: 'Get the inputs of a run',
        description:
          'Returns the files of the pipeline in the versions that the run executes, and the landing files that it reads.',
      },
    })

const reviewRoutes = (runs: RunService) =>
  new Elysia({ prefix: '/runs', tags: ['runs'] })
    .post(
      '/:id/approve',
      ({ params, body, request }) =>
        runs.approve(params.id, body ?? {}, callerNameOf(request), exchangeOf(request).access.person),
      {
        params: RunPath,
        body: t.Optional(Approve),
        response: { 200: RunApproved, 400: ErrorBody, 403: ErrorBody, 404: ErrorBody, 409: ErrorBody },
        detail: {
          operationId: 'approveRun',
          summary: 'Approve a run in review',
          description:
            'Merges the run into main: `status` is `success`. If main has changed the table of the run since, the run executes again (`running`), and needs another review only if its change differs. A run that is not in review is 409. With `reviewers: four-eyes` (Pro), the requester of the run gets 403.',
        },
      },
    )
    .post('/:id/reject', ({ params, body, request }) => runs.reject(params.id, body, callerNameOf(request)), {
      params: RunPath,
      body: Reject,
      response: { 200: RunRejected, 400: ErrorBody, 404: ErrorBody, 409: ErrorBody },
      detail: {
        operationId: 'rejectRun',
        summary: 'Reject a run in review',
        description:
          'Closes the branch of the run. The run is failed, with the message as its error. A run that is not in review is 409.',
      },
    })
