import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { Visible } from '../core/access.ts'
import { newId } from '../core/ids.ts'
import { zones } from '../landing-zones/store/zones.ts'
import { makeNamespaceService } from '../namespaces/service.ts'
import { openParts, type Parts } from '../pipelines/test-parts.ts'

let parts: Parts
beforeAll(async () => {
  parts = await openParts()
})
afterAll(() => parts.close())

const NOTHING: Visible = { pipelines: [], zones: [], namespaces: [] }
const page = { limit: 10, offset: 0 }

test('lists of pipelines, zones and namespaces, and their totals, hold what is seen and no more', async () => {
  const ids: Record<string, string> = {}
  for (const name of ['seen', 'hidden']) {
    await parts.namespaces.create({ name })
    await parts.pipelines().create({ namespace: name, layer: 'gold', name })
    const id = newId()
    await parts.sql`insert into landing_zone (id, namespace, name) values (${id}, ${name}, ${name})`
    ids[name] = id
  }
  const [pipeline] = await parts.sql<{ id: string }[]>`select id from pipeline where name = 'seen'`
  const pipelines = async (visible?: Visible, query = {}) => {
    const list = await parts.pipelines().list(query, visible)
    return [list.total, ...list.pipelines.map(({ name }) => name).sort()]
  }
  const namespaces = makeNamespaceService({ db: parts.db })
  const spaces = async (visible?: Visible) => {
    const list = await namespaces.list(page, visible)
    return [list.total, ...list.namespaces.map(({ name }) => name)]
  }
  const landing = async (seen: Visible['zones'], namespace?: string) => {
    const list = await zones(parts.db, { namespace, seen }, page)
    return [list.total, ...list.items.map(({ name }) => name)]
  }
  const some = { ...NOTHING, pipelines: [pipeline?.id ?? ''], namespaces: ['seen'] }
  expect(await pipelines()).toEqual([2, 'hidden', 'seen'])
  expect(await pipelines(some)).toEqual([1, 'seen'])
  expect(await pipelines(some, { search: 'hid' })).toEqual([0])
  expect(await pipelines(NOTHING)).toEqual([0])
  expect(await spaces()).toEqual([3, 'default', 'hidden', 'seen'])
  expect(await spaces(some)).toEqual([2, 'default', 'seen'])
  expect(await spaces(NOTHING)).toEqual([1, 'default'])
  expect(await landing('all')).toEqual([2, 'hidden', 'seen'])
  expect(await landing([ids.seen ?? ''])).toEqual([1, 'seen'])
  expect(await landing([ids.seen ?? ''], 'hidden')).toEqual([0])
})
