import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { useDatabase } from '../../tools/service/database.ts'
import { makeEnforcement } from '../access/service.ts'
import type { Resource } from '../core/access.ts'
import type { Identity } from '../core/identity.ts'
import { newId } from '../core/ids.ts'
import { makeEnforcementPlugin } from './enforcement.ts'
import { type ExtentFilter, makePluginResources } from './store.ts'
import { channelTo, says, startTestPlugin, type TestPlugin } from './testing.ts'

setDefaultTimeout(60_000)

const opened = useDatabase({ rawConnections: 3 })
let plugin: TestPlugin
beforeAll(async () => {
  plugin = await startTestPlugin()
})
afterAll(() => plugin.stop())

/** Two namespaces, the second owned by ann, each with a pipeline and a zone. The first also has a pipeline of ann. */
async function filled() {
  const { sql } = opened
  await sql`truncate namespace, pipeline, landing_zone cascade`
  const [first, second] = [newId(), newId()]
  await sql`insert into namespace (name, id, owner) values ('first', ${first}, 'bob'), ('second', ${second}, 'ann')`
  const ids: Record<string, string> = { first, second }
  const pipeline = async (name: string, namespace: string, owner: string) => {
    ids[name] = newId()
    await sql`
      insert into pipeline (id, namespace, layer, name, type, owner, draft_snapshot, draft_machine_version, draft_dirty)
      values (${ids[name]}, ${namespace}, 'silver', ${name}, 'sql', ${owner}, '{}', 1, false)`
  }
  const zone = async (name: string, namespace: string) => {
    ids[name] = newId()
    await sql`insert into landing_zone (id, namespace, name, owner) values (${ids[name]}, ${namespace}, ${name}, 'bob')`
  }
  await pipeline('p1', 'first', 'bob')
  await pipeline('p2', 'second', 'bob')
  await pipeline('anns', 'first', 'ann')
  await zone('z1', 'first')
  await zone('z2', 'second')
  const namesOf = (found: readonly string[] | 'all') =>
    found === 'all'
      ? 'all'
      : found.map((id) => Object.keys(ids).find((name) => ids[name] === id) ?? id).sort()
  return { ids, namesOf }
}
const NOTHING: ExtentFilter = { ownerId: null, ids: [], namespaceIds: [], namespaceNames: [] }

test('resolves owners, namespaces and ids to their resources', async () => {
  const { ids, namesOf } = await filled()
  const things = makePluginResources(opened)
  const found = async (meant: Partial<ExtentFilter>) => {
    const all = { ...NOTHING, ...meant }
    const [pipelines, zones] = await Promise.all([things.pipelines(all), things.zones(all)])
    return [namesOf(pipelines), namesOf(zones), (await things.namespaces(all)).sort()]
  }
  const { first = '', p1 = '' } = ids
  expect(await found({})).toEqual([[], [], []])
  expect(await found({ ownerId: 'ann' })).toEqual([['anns', 'p2'], ['z2'], ['second']])
  expect(await found({ namespaceIds: [first] })).toEqual([['anns', 'p1'], ['z1'], ['first']])
  expect(await found({ namespaceNames: ['second'] })).toEqual([['p2'], ['z2'], ['second']])
  expect((await found({ ids: [p1.toUpperCase()], ownerId: 'nobody' }))[0]).toEqual(['p1'])
  expect((await found({ ids: [first] }))[2]).toEqual(['first'])
})

test('sends a plugin the owners of a resource and its namespace', async () => {
  const { ids } = await filled()
  const { first = '', p1 = '' } = ids
  const ann: Identity = { kind: 'user', userId: 'ann', name: 'Ann', roles: ['author'] }
  const enforcement = makeEnforcementPlugin({
    channel: channelTo(plugin.url, 'enforcement'),
    things: makePluginResources(opened),
  })
  plugin.answer = says({ decision: 'DECISION_DENIED' })
  const resource: Resource = { type: 'pipeline', id: p1, namespace: 'first', owner: 'bob' }
  const sentQuestion = async (about: Resource) => {
    expect(await enforcement.check(ann, about, 'write')).toBe(false)
    return JSON.parse(plugin.asked.at(-1)?.body ?? '')
  }
  expect(await sentQuestion(resource)).toEqual({
    user: { id: 'ann', name: 'Ann', roles: ['author'] },
    permission: 'PERMISSION_WRITE',
    resource: {
      type: 'RESOURCE_TYPE_PIPELINE',
      id: p1,
      namespace: 'first',
      namespaceId: first,
      ownerId: 'bob',
      namespaceOwnerId: 'bob',
    },
  })
  expect((await sentQuestion({ ...resource, namespace: 'gone', owner: null })).resource).toEqual({
    type: 'RESOURCE_TYPE_PIPELINE',
    id: p1,
    namespace: 'gone',
  })
})

test('ownership answers of a plugin match the built-in enforcement', async () => {
  await filled()
  const owned = { owned: true }
  plugin.answer = says({ pipelines: owned, landingZones: owned, namespaces: owned })
  const remote = makeEnforcementPlugin({
    channel: channelTo(plugin.url, 'enforcement'),
    things: makePluginResources(opened),
  })
  for (const userId of ['ann', 'bob', 'eve']) {
    const caller: Identity = { kind: 'user', userId, name: userId, roles: [] }
    const sorted = async (enforcement: typeof remote) => {
      const { pipelines, zones, namespaces } = await enforcement.listVisible(caller)
      return [pipelines, zones, namespaces].map((found) => (found === 'all' ? found : [...found].sort()))
    }
    expect(await sorted(remote)).toEqual(await sorted(makeEnforcement(opened)))
  }
})
