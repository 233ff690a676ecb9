// Attack class: use beyond the licence. The running service refuses users beyond the licensed number, and all users after the
// licence has ended.
import { expect, test } from '@playwright/test'
import { eventually } from '../../kit/eventually.ts'
import type { AuditEntry } from '../../kit/resources.ts'
import { startProService } from '../rights/pro-service.ts'

const PATH = '/api/v1/namespaces'
/** Duration of the first service start in milliseconds. The licence of the second test must last longer. */
let startMs = 10_000

test('concurrent users beyond the licensed number are 403', async () => {
  const began = performance.now()
  const service = await startProService({}, { max_users: 3 })
  startMs = performance.now() - began
  try {
    const come = async (name: string) => (await service.ask(service.user(name), 'GET', PATH)).status
    const statuses = await Promise.all(Array.from({ length: 40 }, (_, n) => come(`racer-${n % 20}`)))
    expect(statuses.filter((status) => status === 200)).toHaveLength(6)
    expect(statuses.filter((status) => status === 403)).toHaveLength(34)
    const refused = await service.ask(service.user('one-more'), 'POST', PATH, { name: 'one-more' })
    expect(refused.status).toBe(403)
    expect(refused.json).toMatchObject({
      error: { code: 'AUTHORIZATION', message: expect.stringContaining('the licence allows 3 users') },
    })
    // A role in a token adds no licensed place; keys are machines and need no place.
    expect((await service.ask(service.root, 'GET', PATH)).status).toBe(403)
    const audit = await service.ask(service.machine, 'GET', '/api/v1/audit')
    expect(audit.status).toBe(200)
    expect((audit.json as AuditEntry[])[0]).toMatchObject({ user_id: 'one-more', status: 403, count: 1 })
  } finally {
    await service.stop()
  }
})

test('an expired licence refuses users at once, but not keys', async () => {
  const end = new Date(Date.now() + 15_000 + 2 * startMs)
  const service = await startProService({}, { expires_at: end.toISOString() })
  const license = async () =>
    (await service.must(200, service.machine, 'GET', '/api/v1/features')).license as { expired: boolean }
  try {
    const ada = service.user('ada')
    expect((await service.ask(ada, 'GET', PATH)).status).toBe(200)
    expect(await license()).toMatchObject({ expires_at: end.toISOString(), expired: false })
    await eventually(async () => (await license()).expired).toBe(true)
    const refused = await service.ask(ada, 'GET', PATH)
    expect(refused.status).toBe(403)
    expect(refused.text).toContain(`the licence ended on ${end.toISOString()}`)
    expect((await service.ask(service.machine, 'POST', PATH, { name: 'after-the-end' })).status).toBe(201)
    const ready = await service.ask({}, 'GET', '/health/ready')
    expect(ready.status).toBe(200)
    expect(ready.json).toMatchObject({
      details: { license: 'has expired: users are rejected; set a new LICENSE' },
    })
  } finally {
    await service.stop()
  }
})
