// Specification: Limits, Query timeout.
import { expect, request as newRequest, test } from '@playwright/test'
import { startOwnService } from '../own-service.ts'
import { expectError } from '../resources.ts'

test('a query ends after 30 seconds, and the next one is answered @limit.query-time', async () => {
  const service = await startOwnService({ RUNNER_URLS: 'none' })
  const request = await newRequest.newContext({ baseURL: service.url })
  try {
    const sql = 'select max(hash(x.range, y.range)) from range(10000000) x, range(10000000) y'
    const endless = await request.post('/api/v1/query', { data: { sql } })
    await expectError(endless, 400, /30 s/)
    const next = await request.post('/api/v1/query', { data: { sql: 'select 1 as a' } })
    expect((await next.json()).rows).toEqual([{ a: 1 }])
  } finally {
    await request.dispose()
    await service.stop()
  }
})
