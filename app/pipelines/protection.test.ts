import { expect, test } from 'bun:test'
import { type Access, EVERYTHING, UNLIMITED } from '../core/access.ts'
import { bytes, useParts } from './test-parts.ts'

// A version that demands `reviewers: four-eyes` protects its table. Only a second person replaces it by less.

const parts = useParts()
const FOUR_EYES = 'merge: review\nreviewers: four-eyes\n'
const as = (person: string): Access => ({ ...UNLIMITED, person })

let count = 0
async function published() {
  const ref = { namespace: 'default', layer: 'silver' as const, name: `protected${count++}` }
  await parts.pipelines().create(ref, null, EVERYTHING, 'ann')
  const configure = async (config: string, by: string) => {
    await parts.objects.put(`default/pipelines/silver/${ref.name}/config.yaml`, bytes(config))
    await parts.pipelines().fileWritten(ref, 'config', by)
  }
  const publish = (by: string) => parts.pipelines().publish(ref, '', null, EVERYTHING, as(by))
  await publish('ann')
  await configure(FOUR_EYES, 'ann')
  await publish('ann')
  return { ref, configure, publish }
}

test.each(['', 'merge: auto\n', 'merge: review\n', 'reviewers: four-eyes\n'])(
  'the author of %j does not publish it over four eyes',
  async (config) => {
    const { ref, configure, publish } = await published()
    await configure(config, 'ann')
    await expect(publish('ann')).rejects.toThrow('a user who did not change the draft must publish it')
    expect(await publish('bob')).toMatchObject({ kind: 'published', body: { version: 3 } })
    const [row] = await parts.sql`select review, draft_authors from pipeline where name = ${ref.name}`
    expect(row).toEqual({ review: config === 'merge: review\n' ? 'any' : 'none', draft_authors: [] })
  },
)

test('everybody who changed the draft is an author of its lower rule', async () => {
  const { configure, publish } = await published()
  await configure('', 'ann')
  await configure('# now\n', 'bob')
  for (const author of ['ann', 'bob']) await expect(publish(author)).rejects.toThrow('four-eyes')
  expect((await publish('eve')).kind).toBe('published')
})

test('a publish that keeps four eyes needs no second person', async () => {
  const { configure, publish } = await published()
  await configure(`${FOUR_EYES}review_timeout_hours: 4\n`, 'ann')
  expect((await publish('ann')).kind).toBe('published')
})

test('a version of an older program is read for its rule', async () => {
  const { ref, configure, publish } = await published()
  await parts.sql`update pipeline set review = null where name = ${ref.name}`
  await configure('', 'ann')
  await expect(publish('ann')).rejects.toThrow('four-eyes')
})

test('a rollback to a lower rule and a deletion are refused', async () => {
  const { ref, configure, publish } = await published()
  const pipelines = parts.pipelines()
  await expect(pipelines.rollback(ref, { version: 1 }, 'ann', { person: 'ann' })).rejects.toThrow(
    'version 2 demands reviewers: four-eyes, and version 1 demands less',
  )
  await expect(pipelines.remove(ref, 'bob')).rejects.toThrow('then delete the pipeline')
  expect(await pipelines.rollback(ref, { version: 2 }, 'ann', { person: 'ann' })).toMatchObject({
    new_version: 3,
  })
  await configure('', 'ann')
  await publish('bob')
  await pipelines.remove(ref, 'ann')
  await expect(pipelines.get(ref)).rejects.toThrow('not found')
})
