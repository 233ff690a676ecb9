// Attack classes: function-level and object-level authorization (OWASP API1, API5). Every kind of caller sends every route, on
// resources on which the caller has exactly one right. The answers must be those of the access rules. Hidden and missing
// resources must look the same, and no refused request may change or tell anything.
import { expect, test } from '@playwright/test'
import { fresh } from '../../kit/resources.ts'
import { type Caller, type ProService, startProService } from './pro-service.ts'
import { documentedRequests, icebergRequests, mixedRequests, type Request, VARIANTS } from './routes.ts'
import { absentTwin, makeWorld, masked, type Right, type Role, textsOf, type World } from './world.ts'

const LEVEL: Record<Right, number> = { none: 0, read: 1, write: 2, admin: 3 }

const ROLES: Record<string, Role> = {
  stranger: { thing: 'none', space: 'none' },
  reader: { thing: 'read', space: 'none' },
  writer: { thing: 'write', space: 'none' },
  'admin grantee': { thing: 'admin', space: 'none' },
  owner: { thing: 'admin', space: 'none', isOwner: true },
  'namespace reader': { thing: 'read', space: 'read' },
  'namespace writer': { thing: 'write', space: 'write' },
  'namespace admin': { thing: 'admin', space: 'admin' },
  'namespace owner': { thing: 'admin', space: 'admin' },
  administrator: { thing: 'admin', space: 'admin', isAdministrator: true, isOwner: true },
  'API key': { thing: 'admin', space: 'admin', isAdministrator: true, isOwner: true },
}

let service: ProService
let requests: Request[]
test.beforeAll(async () => {
  service = await startProService({ RUNNER_URLS: '', QUERY_URLS: '', ICEBERG_MAIN_WRITES: 'on' })
  const { endpoints } = await service.must(200, service.root, 'GET', '/iceberg/v1/config')
  const ofDocument = documentedRequests()
  const isDeletion = ({ route }: Request) => route.startsWith('DELETE')
  requests = [
    ...ofDocument.filter((each) => !isDeletion(each)),
    ...VARIANTS,
    ...icebergRequests(endpoints as string[], ({ branch }) => `sluice.${branch}`),
    ...icebergRequests(endpoints as string[], () => 'sluice'),
    ...ofDocument.filter(isDeletion),
  ]
  expect(requests.length).toBeGreaterThan(160)
})
test.afterAll(async () => {
  await service?.stop()
})

/** `allowed`, or the status of the refusal. */
function verdict({ needed, route }: Request, role: Role): 'allowed' | 403 | 404 {
  if (needed === 'nothing') return 'allowed'
  if (needed === 'administrator') return role.isAdministrator ? 'allowed' : 403
  if (needed === 'ownership') return role.isOwner ? 'allowed' : 403
  if (LEVEL[role[needed.of]] >= LEVEL[needed.right]) return 'allowed'
  // A name in the Iceberg catalog exists for its readers only. The API tells also others that a right is missing.
  if (route.includes(' /v1/')) return role.thing === 'none' ? 404 : 403
  return needed.right === 'read' ? 404 : 403
}

const isRefusal = (status: number, { isGone }: Request) =>
  [401, 403, 404].includes(status) && !(status === 404 && isGone)

/** Branches and tags have names that every user sees. */
const PUBLIC = new Set(['changed', 'branch', 'tag'])

const send = (caller: Caller, { route, path, body }: Request, world: World) =>
  service.ask(caller, route.split(' ')[0] ?? '', path(world), body?.(world))

/** Missing names for a request: another namespace when the path names nothing else of the world. */
function absentFor({ path }: Request, world: World): World {
  const twin = absentTwin(world)
  const isOfNamespace = path(twin) === path(world) && path(world).includes(world.namespace)
  return isOfNamespace ? absentTwin(world, fresh('absent-space')) : twin
}

/** The path and body of a request, to compare two requests. */
const namesIn = ({ path, body }: Request, world: World) => path(world) + JSON.stringify(body?.(world) ?? '')

async function expectLikeMissing(caller: Caller, request: Request, hidden: { world: World; text: string }) {
  const twin = absentFor(request, hidden.world)
  // The two requests differ: a request is always like itself.
  expect.soft(namesIn(request, twin), request.route).not.toBe(namesIn(request, hidden.world))
  const missing = await send(caller, request, twin)
  expect.soft(masked(hidden.text, hidden.world), request.route).toBe(masked(missing.text, twin))
}

/** An answer contains only names that its request has sent. */
function expectNothingTold(request: Request, { world, text }: { world: World; text: string }) {
  const sent = decodeURIComponent(request.path(world)) + JSON.stringify(request.body?.(world) ?? '')
  const told = textsOf(world).filter(
    ([key, value]) => !PUBLIC.has(key) && text.includes(value) && !sent.includes(value),
  )
  expect.soft([request.route, told]).toEqual([request.route, []])
}

/** The successful writes of a user in the audit log, oldest first. */
async function auditOf(subject: string) {
  const { json } = await service.ask(service.root, 'GET', '/api/v1/audit?limit=1000')
  return (json as { action: string; user_id: string; status: number; resource: string }[])
    .filter(({ user_id, status }) => user_id === subject && status < 300)
    .map(({ action, resource }) => [action, resource])
    .reverse()
}

/** Answers about a world, as an administrator sees them. */
async function stateOf({ namespace, pipeline, view, zone, changed, scheduleId }: World): Promise<string> {
  const at = `/api/v1/pipelines/${namespace}/bronze/${pipeline}`
  const found: string[] = []
  for (const path of [
    `/api/v1/namespaces/${namespace}`,
    ...['', '/versions', '/tests', '/triggers', '/retention'].map((part) => at + part),
    `/api/v1/schedules/${scheduleId}`,
    ...['', '/files', '/samples', '/lifecycle'].map(
      (part) => `/api/v1/landing-zones/${namespace}/${zone}${part}`,
    ),
    `/api/v1/files?prefix=${namespace}/`,
    `/api/v1/runs?namespace=${namespace}`,
    `/api/v1/branches/${changed}`,
    `/iceberg/v1/sluice/namespaces/${namespace}%1Fbronze/tables/${pipeline}`,
    `/iceberg/v1/sluice/namespaces/${namespace}%1Fgold/views/${view}`,
  ])
    found.push(JSON.stringify(await service.must(200, service.root, 'GET', path)))
  return found.join('\n')
}

for (const [name, role] of Object.entries(ROLES))
  test(`every route answers the ${name} according to its rule`, async () => {
    const subject = fresh('user')
    const world = await makeWorld(service, { name, role, subject })
    const caller =
      name === 'API key'
        ? service.machine
        : service.user(subject, role.isAdministrator ? { roles: ['admin'] } : {})
    const before = await stateOf(world)
    // The owner of the namespace has made it.
    const changes: unknown[] = name === 'namespace owner' ? [['post', '/api/v1/namespaces']] : []
    for (const request of requests) {
      const { status, text } = await send(caller, request, world)
      const what = `${request.route} ${request.path(world)} ${status} ${text.slice(0, 200)}`
      const expected = verdict(request, role)
      if (expected === 'allowed') expect.soft([what, isRefusal(status, request)]).toEqual([what, false])
      else expect.soft([what, status]).toEqual([what, expected])
      if (expected === 404) await expectLikeMissing(caller, request, { world, text })
      if (role.thing === 'none') expectNothingTold(request, { world, text })
      if (!/^(GET|HEAD) /.test(request.route) && status < 300)
        changes.push([request.route.split(' ')[0]?.toLowerCase(), request.path(world)])
    }
    if (role.thing === 'none' || role.thing === 'read') expect(await stateOf(world)).toBe(before)
    expect(await auditOf(subject)).toEqual(name === 'API key' ? [] : changes)
  })

test('a write that names an own and a hidden resource finds only the own', async () => {
  const subject = fresh('bob')
  const [own, hidden] = [
    await makeWorld(service, { name: 'namespace owner', role: ROLES['namespace owner'] as Role, subject }),
    await makeWorld(service, { name: 'stranger', role: ROLES.stranger as Role, subject: 'nobody' }),
  ]
  const before = [await stateOf(own), await stateOf(hidden)]
  for (const request of mixedRequests(own)) {
    const bob = service.user(subject)
    const { status, text } = await send(bob, request, hidden)
    expect.soft([request.route, status, text]).toEqual([request.route, request.status, text])
    await expectLikeMissing(bob, request, { world: hidden, text })
  }
  expect([await stateOf(own), await stateOf(hidden)]).toEqual(before)
})

test('every route refuses a caller without a valid credential alike', async () => {
  const world = await makeWorld(service, { name: 'nobody', role: ROLES.stranger as Role, subject: 'nobody' })
  const before = await stateOf(world)
  const valid = String(service.root.authorization)
  const hour = 3_600
  const callers: Record<string, Caller> = {
    'no token': {},
    'a wrong token': { authorization: 'Bearer wrong' },
    'a changed signature': { authorization: `${valid.slice(0, -8)}AAAAAAAA` },
    'an expired token': service.user('root', {
      roles: ['admin'],
      exp: Math.floor(Date.now() / 1_000) - hour,
    }),
    'a token for another audience': service.user('root', { roles: ['admin'], aud: 'another' }),
    'a wrong key': { 'x-api-key': 'wrong' },
  }
  for (const [title, caller] of Object.entries(callers)) {
    const answers = new Set<string>()
    for (const request of requests) {
      const { status, text } = await send(caller, request, world)
      expect.soft([title, request.route, status]).toEqual([title, request.route, 401])
      answers.add(`${request.route.includes(' /v1/')} ${text}`)
    }
    // One answer of the API, one of Iceberg, and one without a body for HEAD: they do not depend on what exists.
    expect([title, answers.size, ...answers]).toEqual([title, 3, ...answers])
  }
  expect(await stateOf(world)).toBe(before)
})

test('nothing that resembles an administrator opens the functions of administrators', async () => {
  const ofAdministrators = requests.filter(
    ({ needed, route }) => needed === 'administrator' && /GET|PUT|POST/.test(route),
  )
  const world = await makeWorld(service, {
    name: 'stranger',
    role: ROLES.stranger as Role,
    subject: 'nobody',
  })
  const user = service.user(fresh('user'))
  const pretenders = [
    ...[
      { roles: ['Admin'] },
      { roles: ['administrator'] },
      { roles: [' admin'] },
      { roles: ['admin\u0000'] },
      { roles: { admin: true } },
      { 'roles ': ['admin'] },
      { role: 'admin', admin: true, is_admin: true, scope: 'admin', groups: ['admin'] },
      { name: 'root', preferred_username: 'root' },
    ].map((claims) => service.user(fresh('user'), claims)),
    { ...user, 'x-user': 'root', 'x-forwarded-user': 'root', 'x-remote-user': 'root' },
    { ...user, 'x-role': 'admin', 'x-roles': 'admin' },
    { ...user, 'x-original-url': '/api/v1/features', 'x-rewrite-url': '/api/v1/features' },
    { ...user, 'x-http-method-override': 'GET', 'x-method-override': 'GET', 'x-forwarded-for': '127.0.0.1' },
  ]
  for (const caller of pretenders)
    for (const request of ofAdministrators) {
      const { status, text } = await send(caller, request, world)
      expect.soft([request.route, caller, status, text]).toEqual([request.route, caller, 403, text])
    }
  for (const path of ['/audit/', '//audit', '/Audit', '/audit;x=1', '/%61udit'])
    for (const method of ['GET', 'HEAD']) {
      const { status } = await service.ask(user, method, `/api/v1${path}`)
      expect.soft([path, method, [403, 404].includes(status)]).toEqual([path, method, true])
    }
})
