// One user uses a part of each limit that all users have together.
import { expect, setDefaultTimeout, test } from 'bun:test'
import { duringTests } from '../../tools/kit/during.ts'
import { openPro } from './testing.ts'

setDefaultTimeout(60_000)

const pro = duringTests(openPro)

test('a user owns a tenth of all landing zones, and others still create theirs', async () => {
  await pro.parts.sql`
    insert into landing_zone (id, namespace, name, owner)
    select gen_random_uuid(), 'default', 'many-' || n, 'zoe' from generate_series(1, 999) n`
  const create = (user: string) =>
    pro.call(user, 'POST', '/landing-zones', { namespace: 'default', name: pro.freshName('zone') })
  const answers = await Promise.all([create('zoe'), create('zoe'), create('zoe')])
  expect(answers.map(({ status }) => status).sort()).toEqual([201, 409, 409])
  expect((await create('zoe')).body.error).toMatchObject({
    code: 'FAILED_PRECONDITION',
    message: 'user zoe has 1000 landing zones, and the limit of one user is 1000: delete one',
  })
  for (const other of ['yan', 'root', 'key']) expect((await create(other)).status).toBe(201)
})

test('a user owns a tenth of all namespaces, and others still create theirs', async () => {
  await pro.parts.sql`
    insert into namespace (name, owner) select 'many-' || n, 'zoe' from generate_series(1, 1000) n`
  const create = (user: string) => pro.call(user, 'POST', '/namespaces', { name: pro.freshName('space') })
  expect((await create('zoe')).body.error).toMatchObject({
    message: 'user zoe has 1000 namespaces, and the limit of one user is 1000: delete one',
  })
  for (const other of ['yan', 'root', 'key']) expect((await create(other)).status).toBe(201)
})

test('a grantee with admin makes a tenth of the grants of a resource', async () => {
  const pipeline = await pro.newPipeline('ann')
  await pro.share('ann', 'bob', pipeline, 'admin')
  await pro.parts.sql`
    insert into access_grant (id, grantor_id, grantee_id, resource_type, resource_id, permission)
    select gen_random_uuid(), 'bob', 'friend-' || n, 'pipeline', ${pipeline.id}, 'read' from generate_series(1, 100) n`
  const refused = await pro.share('bob', 'next', pipeline, 'read')
  expect(refused).toMatchObject({ status: 409, body: { error: { code: 'FAILED_PRECONDITION' } } })
  expect(refused.body.error.message).toBe(
    'user bob has 100 grants on this resource, and the limit of one user is 100: revoke some, or ask its owner to share a namespace',
  )
  await pro.parts.sql`
    insert into access_grant (id, grantor_id, grantee_id, resource_type, resource_id, permission)
    select gen_random_uuid(), 'ann', 'other-' || n, 'pipeline', ${pipeline.id}, 'read' from generate_series(1, 800) n`
  expect(await pro.share('ann', 'next', pipeline, 'read')).toMatchObject({ status: 201 })
})
