// Specification: Limits, Query timeout.
import { expect } from '@playwright/test'
import { test } from '../kit/own-service.ts'
import { expectError, rowsOf } from '../kit/resources.ts'

test.use({ serviceEnv: { RUNNER_URLS: 'none' } })

test('a query times out after 30 seconds and the next query succeeds @limit.query-time', async ({
  request,
}) => {
  const sql = 'select max(hash(x.range, y.range)) from range(10000000) x, range(10000000) y'
  await expectError(await request.post('/api/v1/query', { data: { sql } }), 400, /30 s/)
  expect(await rowsOf(request, 'select 1 as a')).toEqual([{ a: 1 }])
})
