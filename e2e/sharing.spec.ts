// Specification: Sharing. It belongs to the Pro edition; the community edition says so, whatever is sent.
import { expect, test } from '@playwright/test'
import { expectError } from './resources.ts'

const path = '/api/v1/sharing'
const id = '00000000-0000-7000-8000-000000000000'
const grant = { grantee_id: 'ann', resource_type: 'pipeline', resource_id: id, permission: 'read' }

test('granting access is not available in the community edition @sharing.grant.501', async ({ request }) => {
  for (const data of [grant, {}, undefined])
    await expectError(await request.post(path, { data }), 501, /sharing/)
})

test('listing grants is not available in the community edition @sharing.list.501', async ({ request }) => {
  const params = { resource_type: 'pipeline', resource_id: id }
  await expectError(await request.get(path, { params }), 501, /sharing/)
  await expectError(await request.get(path), 501, /sharing/)
})

test('revoking access is not available in the community edition @sharing.revoke.501', async ({ request }) => {
  for (const what of [id, 'no-id']) await expectError(await request.delete(`${path}/${what}`), 501, /sharing/)
})

test('transferring a pipeline is not available in the community edition @sharing.transfer.501', async ({
  request,
}) => {
  const data = { resource_type: 'pipeline', resource_id: id, to_user_id: 'bob' }
  await expectError(await request.post(`${path}/transfer`, { data }), 501, /sharing/)
  expect((await request.get(`${path}/transfer`)).status()).toBe(405)
})
