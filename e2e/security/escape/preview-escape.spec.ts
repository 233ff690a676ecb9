// Specification: Preview. The engine of a preview reads only its input, whatever its SQL says.
import { type APIRequestContext, test } from '@playwright/test'
import { expectHealthy, expectRefused, newPreview } from './attempts.ts'
import { STATEMENTS } from './statements.ts'

let preview: Awaited<ReturnType<typeof newPreview>>
test.beforeAll(async ({ request }) => {
  preview = await newPreview(request)
})
/** The request of a fixture ends with its test, so each test uses its own. */
const asking = (request: APIRequestContext) => (code: string) =>
  request.post(`${preview.url}/preview`, { data: { code } })

for (const [what, attempts] of Object.entries(STATEMENTS))
  test(`a preview does not reach ${what}: ${attempts.length} attempts`, async ({ request }) => {
    const ask = asking(request)
    for (const [sql, message] of attempts) await expectRefused(await ask(sql), sql, message)
    await expectHealthy(request)
  })

test('a preview that exhausts memory is ended, and the next one works', async ({ request }) => {
  const ask = asking(request)
  const greedy = "select string_agg(repeat('x', 1000), '') as a from range(100_000_000)"
  await expectRefused(await ask(greedy), greedy, /needs more memory|memory limit exceeded|Out of Memory/)
  await expectHealthy(request)
})
