import { Type as t } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { limits } from '../core/limits.ts'
import { ErrorBody, PipelinePath } from '../core/names.ts'
import { pageOf, setLink, WholeListQuery } from '../core/pagination.ts'
import { refOf } from '../core/pipeline-ref.ts'
import { TestResults } from '../core/test-results.ts'
import { callerNameOf, readerBehind } from '../http/exchange.ts'
import { CreateTest, QualityTestList, TestCreated, TestPath } from './schema.ts'
import type { QualityTestService } from './service.ts'

export const qualityTestRoutes = (tests: QualityTestService) =>
  new Elysia({ prefix: '/pipelines/:ns/:layer/:name/tests', tags: ['quality tests'] })
    .get(
      '',
      async ({ params, query, request, set }) => {
        const page = pageOf(query, limits.listCap)
        const list = await tests.list(refOf(params), page)
        setLink(set, request.url, page, list.total)
        return list
      },
      {
        params: PipelinePath,
        query: WholeListQuery,
        response: { 200: QualityTestList, 404: ErrorBody },
        detail: {
          operationId: 'listQualityTests',
          summary: 'List quality tests',
          description: 'Returns the tests of the draft, ordered by name.',
        },
      },
    )
    .post(
      '',
      async ({ params, body, request, status }) =>
        status(201, await tests.create(refOf(params), body, callerNameOf(request))),
      {
        params: PipelinePath,
        body: CreateTest,
        response: { 201: TestCreated, 400: ErrorBody, 404: ErrorBody, 409: ErrorBody, 507: ErrorBody },
        detail: {
          operationId: 'createQualityTest',
          summary: 'Create a quality test',
          description: 'Writes the test into the draft. Runs evaluate the test after the next publish.',
        },
      },
    )
    .delete(
      '/:testName',
      async ({ params, request, status }) => {
        await tests.remove(refOf(params), params.testName, callerNameOf(request))
        return status(204, undefined)
      },
      {
        params: TestPath,
        response: { 204: t.Void(), 404: ErrorBody },
        detail: {
          operationId: 'deleteQualityTest',
          summary: 'Delete a quality test',
          description: 'Removes the file of the test. Published versions retain the tests that they pin.',
        },
      },
    )
    .post('/run', ({ params, request }) => tests.run(refOf(params), request.signal, readerBehind(request)), {
      params: PipelinePath,
      response: { 200: TestResults, 400: ErrorBody, 404: ErrorBody, 503: ErrorBody },
      detail: {
        operationId: 'runQualityTests',
        summary: 'Run all quality tests',
        description: 'Evaluates the tests of the draft against the data that the caller may see.',
      },
    })
