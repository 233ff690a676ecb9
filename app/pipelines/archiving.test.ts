import { expect, test } from 'bun:test'
import { EVERYTHING, type Visible } from '../core/access.ts'
import { refuseComputedArchiving } from './archiving.ts'
import { bytes, refusal, useParts } from './test-parts.ts'

const parts = useParts()

let count = 0
/** A pipeline whose draft reads a zone by this call and archives what it reads. */
async function reader(call: string, config = 'archive_landing_zones: true') {
  const ref = { namespace: 'default', layer: 'bronze' as const, name: `a${count++}` }
  await parts.pipelines().create(ref)
  const prefix = `default/pipelines/bronze/${ref.name}/`
  await parts.objects.put(`${prefix}pipeline.sql`, bytes(`select * from '{{ ${call} }}'`))
  await parts.objects.put(`${prefix}config.yaml`, bytes(config))
  const publish = (visible: Visible = EVERYTHING) => parts.pipelines().publish(ref, '', null, visible)
  return { ref, prefix, name: `default.bronze.${ref.name}`, publish }
}
const zone = () => `landing_zone("z${count}")`

test('publish refuses a second pipeline that archives the same files', async () => {
  const call = zone()
  const [first, second] = [await reader(call), await reader(call)]
  expect((await first.publish()).kind).toBe('published')
  expect((await first.publish()).kind).toBe('published')
  const refused = await refusal(second.publish())
  expect([refused.status, refused.message]).toEqual([409, expect.stringContaining(first.name)])
  const unseen = await refusal(second.publish({ ...EVERYTHING, pipelines: [] }))
  expect(unseen.message).toContain('is archived by another pipeline')
  expect((await refusal(parts.pipelines().runnable(second.ref, false, true))).status).toBe(409)
  expect((await parts.pipelines().runnable(second.ref, true)).versionNumber).toBeNull()
})

test('different patterns, other zones and readers that do not archive are published', async () => {
  const own = `z${count}`
  const patterned = (pattern: string) => reader(`landing_zone("${own}", pattern="${pattern}")`)
  for (const each of [await patterned('*.csv'), await patterned('*.json'), await reader(zone())])
    expect((await each.publish()).kind).toBe('published')
  for (const overlapping of ['*.csv', 'orders_*', '*.[a-c]sv'])
    expect((await refusal((await patterned(overlapping)).publish())).status).toBe(409)
  for (const changed of [' | replace("*", "*.txt")', '.replace("*", "*.txt")'])
    expect((await (await reader(`landing_zone("${own}")${changed}`)).publish()).kind).toBe('published')
  const all = await reader(`landing_zone("${own}")`)
  expect((await refusal(all.publish())).status).toBe(409)
  await parts.objects.put(`${all.prefix}config.yaml`, bytes('archive_landing_zones: false'))
  expect((await all.publish()).kind).toBe('published')
})

test('one of two pipelines that are published at once is refused', async () => {
  const call = zone()
  const both = [await reader(call), await reader(call)]
  const outcomes = await Promise.allSettled(both.map(({ publish }) => publish()))
  expect(outcomes.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
})

test('a rollback to a version that archives the same files is refused', async () => {
  const call = zone()
  const [first, second] = [await reader(call), await reader(call)]
  await first.publish()
  await parts.objects.put(`${first.prefix}config.yaml`, bytes(''))
  await first.publish()
  await second.publish()
  const refused = await refusal(parts.pipelines().rollback(first.ref, { version: 1 }))
  expect([refused.status, refused.message]).toEqual([409, expect.stringContaining(second.name)])
  await parts.pipelines().remove(second.ref)
  expect(await parts.pipelines().rollback(first.ref, { version: 1 })).toMatchObject({ new_version: 3 })
})

test('a run is refused for computed names, not for its tests', async () => {
  const named = `z${count}`
  await (await reader(`landing_zone("${named}")`)).publish()
  const other = await reader('landing_zone(name)')
  const refuse = async () => {
    await other.publish()
    const [run] = await parts.sql`
      insert into run (id, pipeline_id, namespace, layer, pipeline, pipeline_type, trigger, pins, landing_zones,
        snapshot, machine_version, status)
      select ${parts.deps.newId()}, p.id, p.namespace, p.layer, p.name, 'sql', 'manual', v.published_versions, '[]', '{}',
        1, 'pending'
      from pipeline p join pipeline_version v on v.pipeline_id = p.id and v.version_number = p.published_version
      where p.name = ${other.ref.name} returning id`
    return refuseComputedArchiving(parts.db, parts.objects, { runId: run?.id, zone: `default.${named}` })
  }
  expect((await refusal(refuse())).status).toBe(409)
  const tested = `select * from '{{ landing_zone("${named}") }}'`
  await parts.objects.put(`${other.prefix}tests/quality/t.sql`, bytes(tested))
  await refuse()
})

test('files that a computed name has archived refuse only patterns that match them', async () => {
  const { sql, deps } = parts
  const named = `z${count}`
  const computed = await reader('landing_zone(name)')
  await computed.publish()
  await sql`
    with zone as (
      insert into landing_zone (id, namespace, name) values (${deps.newId()}, 'default', ${named}) returning id),
    archived as (
      insert into run (id, pipeline_id, namespace, layer, pipeline, pipeline_type, version_number, trigger, pins, landing_zones,
        snapshot, machine_version, status)
      select ${deps.newId()}, p.id, p.namespace, p.layer, p.name, 'sql', 1, 'manual', '{}', '[]', '{}', 1, 'success'
      from pipeline p where p.name = ${computed.ref.name} returning id)
    insert into landing_file (id, zone_id, filename, original_name, path, version_id, size_bytes, content_type, archived_by_run)
    select ${deps.newId()}, zone.id, '1_a.csv', 'a.csv', '1_a.csv', 'v', 1, 'text/csv', archived.id from zone, archived`
  for (const taken of ['', ', pattern="*.csv"']) {
    const refused = await refusal((await reader(`landing_zone("${named}"${taken})`)).publish())
    expect([refused.status, refused.message]).toEqual([409, expect.stringContaining(computed.name)])
  }
  expect((await (await reader(`landing_zone("${named}", pattern="*.json")`)).publish()).kind).toBe(
    'published',
  )
  await computed.publish()
  expect((await (await reader(`landing_zone("${named}", pattern="*.csv")`)).publish()).kind).toBe('published')
})
