// Specification: Sharing. Sharing belongs to the Pro edition; the community edition answers 501 to every request.
import { test } from '@playwright/test'
import { expectError } from '../kit/resources.ts'

const path = '/api/v1/sharing'
const id = '00000000-0000-7000-8000-000000000000'
const resource = { resource_type: 'pipeline', resource_id: id }

/** Requests by row of COVERAGE.md. */
const REQUESTS: Record<string, [method: string, url: string, options?: object][]> = {
  grant: [
    ['post', path, { data: { ...resource, grantee_id: 'ann', permission: 'read' } }],
    ['post', path, { data: {} }],
    ['post', path],
  ],
  list: [
    ['get', path, { params: resource }],
    ['get', path],
  ],
  revoke: [
    ['delete', `${path}/${id}`],
    ['delete', `${path}/no-id`],
  ],
  transfer: [['post', `${path}/transfer`, { data: { ...resource, to_user_id: 'bob' } }]],
}

for (const [row, requests] of Object.entries(REQUESTS))
  test(`${row} is not available in the community edition @sharing.${row}.501`, async ({ request }) => {
    for (const [method, url, options] of requests)
      await expectError(await request.fetch(url, { method, ...options }), 501, /sharing/)
  })
