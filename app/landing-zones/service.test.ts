import { afterEach, describe, expect, test } from 'bun:test'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import postgres from 'postgres'
import { until } from '../../tools/kit/until.ts'
import { performDue } from '../../workers/dispatcher/outbox.ts'
import type { Clock } from '../core/clock.ts'
import { newId } from '../core/ids.ts'
import { limits } from '../core/limits.ts'
import { type KeyOf, withoutKey } from '../http/idempotency-key.ts'
import { formWith } from '../http/test-form.ts'
import { onSlowDisk, type Parts, refusal, useParts } from '../pipelines/test-parts.ts'
import { type AbandonedUpload, makeClearUp } from './effects.ts'
import type { LandingFile } from './schema.ts'
import { makeLandingZoneService } from './service.ts'

const parts = useParts()
const START = new Date('2026-03-01T06:45:00.900Z')
let now = START
const clock: Clock = { now: () => now, elapsed: () => 0 }
afterEach(() => {
  now = START
})

const service = (replaced: Partial<Parts['deps']> = {}) =>
  makeLandingZoneService({ ...parts.deps, clock, ...replaced })
const page = { limit: 100, offset: 0 }
let zonesCreated = 0
async function created() {
  const ref = { namespace: 'default', name: `zone-${zonesCreated++}` }
  await service().create(ref)
  return { ref, prefix: `default/landing/${ref.name}/` }
}
const file = (name: string, text = 'a,b\n1,2\n', type = 'text/csv') =>
  formWith(new File([text], name, { type }))
/** A unique key for any number of repeated uploads. */
const keyed = (): KeyOf => {
  const key = { caller: '', operation: 'POST test', key: newId(), requestHash: 'same' }
  return () => key
}
/**
 * Uploads a file and returns a store. When the store is used, the file gets the name that the next upload of met.csv has
 * claimed.
 */
async function meeting(ref: { namespace: string; name: string }) {
  const other = await service().upload(ref, file('met.csv'))
  await parts.sql`update landing_file set original_name = 'another.csv' where id = ${other.id}`
  now = new Date('2026-03-01T06:45:01.000Z')
  const objects: Parts['objects'] = {
    ...parts.objects,
    async stage(...stage) {
      // Renames the file after the upload has read the taken names, as another replica might.
      await parts.sql`update landing_file set filename = '20260301_064501_met.csv' where id = ${other.id}`
      return parts.objects.stage(...stage)
    },
  }
  return { other, objects }
}
const keysUnder = async (prefix: string) =>
  (await parts.objects.list(prefix, { limit: 100 })).objects.map(({ key }) => key)

describe('an upload', () => {
  test('concurrent uploads of one name get successive seconds in their names', async () => {
    const { ref } = await created()
    await Promise.all(['a', 'b', 'c', 'd', 'e'].map((text) => service().upload(ref, file('same.csv', text))))
    const shared = service()
    await Promise.all(['f', 'g', 'h'].map((text) => shared.upload(ref, file('same.csv', text))))
    const { files } = await service().files(ref, page)
    expect(files.map(({ filename }) => filename).sort()).toEqual(
      Array.from({ length: 8 }, (_, second) => `20260301_06450${second}_same.csv`),
    )
    const texts = await Promise.all(
      files.map(async ({ s3_path }) => (await parts.objects.text(s3_path))?.text),
    )
    expect(texts.sort()).toEqual(['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'])
  })

  test.each([
    ['../../etc/passwd', 'passwd'],
    ['C:\\data\\día 1.csv', 'día 1.csv'],
    ['フライト.parquet', 'フライト.parquet'],
    ['..', '..'],
  ])('a file named %p is stored as %p', async (name, stored) => {
    const { ref } = await created()
    expect((await service().upload(ref, file(name))).filename).toBe(`20260301_064500_${stored}`)
  })

  test.each(['', 'data/', 'a\nb.csv', 'a\u0000.csv', 'a\u0085.csv', `${'x'.repeat(600)}.csv`])(
    'a file named %p is refused and leaves nothing',
    async (name) => {
      const { ref, prefix } = await created()
      const { status, message } = await refusal(service().upload(ref, file(name)))
      expect({ status, field: message.split(':')[0] }).toEqual({ status: 400, field: 'file' })
      expect(await keysUnder(prefix)).toEqual([])
    },
  )

  test.each([
    ['', withoutKey],
    [' under a key', keyed()],
  ])('an upload%s gets a later name if another replica took its name', async (_, keyOf) => {
    const { ref, prefix } = await created()
    const { other, objects } = await meeting(ref)
    const uploaded = await service({ objects }).upload(ref, file('met.csv'), keyOf)
    expect(uploaded.filename).toBe('20260301_064502_met.csv')
    expect((await keysUnder(prefix)).sort()).toEqual([other.s3_path, uploaded.s3_path].sort())
    if (keyOf !== withoutKey) expect(await service().upload(ref, file('met.csv'), keyOf)).toEqual(uploaded)
    expect((await service().files(ref, page)).total).toBe(2)
  })

  test('a repeated upload under one key leaves one file after a rename', async () => {
    const { ref, prefix } = await created()
    const { other, objects } = await meeting(ref)
    const keyOf = keyed()
    let first: LandingFile | null = null
    const overtaken: Parts['objects'] = {
      ...objects,
      async put(...put) {
        first = await service().upload(ref, file('met.csv'), keyOf)
        return parts.objects.put(...put)
      },
    }
    const second = await service({ objects: overtaken }).upload(ref, file('met.csv'), keyOf)
    expect(second).toEqual(first as unknown as LandingFile)
    expect((await keysUnder(prefix)).sort()).toEqual([other.s3_path, second.s3_path].sort())
    expect((await service().files(ref, page)).total).toBe(2)
    expect(await parts.sql`select 1 from outbox where payload ->> 'name' = ${ref.name}`).toHaveLength(0)
  })

  test('uploads open no transaction while they wait for a slow disk', async () => {
    const { ref } = await created()
    const observed = await onSlowDisk(parts, async (slow) => {
      const { upload, samples } = service(slow)
      await upload(ref, file('a.csv'), keyed())
      await upload(ref, file('b.csv', 'x'.repeat(1_048_576)), keyed())
      await samples.upload(ref, file('a.csv'))
      await samples.upload(ref, file('a.csv'), keyed())
    })
    expect(observed).toEqual({ files: 4, early: 0 })
  })

  test('an upload whose key belongs to another request leaves nothing', async () => {
    const { ref } = await created()
    const key = { caller: '', operation: 'POST test', key: newId(), requestHash: 'one' }
    const { s3_path: path } = await service().upload(ref, file('a.csv'), () => key)
    const arriving = () => readdir(join(parts.root, '~tmp'))
    const before = await arriving()
    const another = service().upload(ref, file('b.csv'), () => ({ ...key, requestHash: 'another' }))
    expect((await refusal(another)).status).toBe(409)
    expect(await keysUnder(`default/landing/${ref.name}`)).toEqual([path])
    expect(await arriving()).toEqual(before)
  })

  test('an upload whose object cannot be stored creates no file', async () => {
    const { ref } = await created()
    const broken: Parts['objects'] = {
      ...parts.objects,
      async stage(...stage) {
        const staged = await parts.objects.stage(...stage)
        return { ...staged, commit: () => Promise.reject(new Error('the disk is broken')) }
      },
    }
    const { message } = await refusal(service({ objects: broken }).upload(ref, file('a.csv')))
    expect(message).toBe('the disk is broken')
    expect((await service().files(ref, page)).total).toBe(0)
  })

  test('an upload to a zone deleted meanwhile is 404 and leaves nothing', async () => {
    const { ref, prefix } = await created()
    const slow = {
      ...parts.objects,
      stage: async (...stage: Parameters<Parts['objects']['stage']>) => {
        const staged = await parts.objects.stage(...stage)
        await service().remove(ref)
        return staged
      },
    }
    expect((await refusal(service({ objects: slow }).upload(ref, file('late.csv')))).status).toBe(404)
    expect(await keysUnder(prefix)).toEqual([])
  })

  test('an archived file is neither counted nor listed, but can be found', async () => {
    const { ref } = await created()
    const stored = await service().upload(ref, file('done.csv'))
    await parts.sql`update landing_file set archived_by_run = ${parts.deps.newId()} where id = ${stored.id}`
    expect(await service().get(ref)).toMatchObject({ file_count: 0, total_bytes: 0 })
    expect(await service().files(ref, page)).toEqual({ files: [], total: 0 })
    expect((await service().file(ref, stored.id)).filename).toBe(stored.filename)
  })
})

describe('an upload that is killed', () => {
  /** An object store that calls `act` after an object got its name and before the caller learns of it. */
  const namedThen = (act: () => Promise<unknown>): Parts['objects'] => ({
    ...parts.objects,
    async stage(...stage) {
      const staged = await parts.objects.stage(...stage)
      return {
        ...staged,
        async commit(key) {
          const named = await staged.commit(key)
          await act()
          return named
        },
      }
    },
  })
  const killedThen = () => namedThen(() => new Promise(() => {}))
  const intents = ({ name }: { name: string }) => parts.sql<{ payload: AbandonedUpload; minutes: number }[]>`
    select payload, extract(epoch from due_at - clock_timestamp())::int / 60 as minutes from outbox
    where kind = 'abandonedUpload' and payload ->> 'name' = ${name}`

  const makeDue = ({ name }: { name: string }) => parts.sql`
    update outbox set due_at = clock_timestamp() - interval '1 s' where payload ->> 'name' = ${name}`
  const performEffects = () =>
    performDue(
      parts.sql,
      { abandonedUpload: (payload) => makeClearUp(parts)(payload as unknown as AbandonedUpload) },
      (_, error) => {
        throw error
      },
    )

  test('cleanup removes the object of a killed upload and nothing else', async () => {
    const { ref, prefix } = await created()
    const recordedFile = await service().upload(ref, file('kept.csv'))
    void service({ objects: killedThen() }).upload(ref, file('lost.csv'))
    const keys = await until(
      () => keysUnder(prefix),
      (found) => found.length === 2,
    )
    const [intent, ...others] = await intents(ref)
    expect(others).toHaveLength(0)
    expect(intent?.payload.path).toBe(keys.find((key) => key !== recordedFile.s3_path) ?? '')
    expect(intent?.minutes).toBeGreaterThanOrEqual(limits.uploadMs / 60_000)
    expect((await service().files(ref, page)).total).toBe(1)
    await makeDue(ref)
    for (let turn = 0; turn < 2; turn++) {
      await performEffects()
      await makeClearUp(parts)({ ...ref, filename: recordedFile.filename, path: recordedFile.s3_path })
      expect(await keysUnder(prefix)).toEqual([recordedFile.s3_path])
    }
    expect(await intents(ref)).toHaveLength(0)
  })

  test('cleanup finds uploads under way by an index', async () => {
    const plans: string[] = []
    const explained = postgres(parts.url, {
      max: 1,
      connection: { plan_cache_mode: 'force_generic_plan', enable_seqscan: 'off' },
      onnotice: ({ message }) => void plans.push(message ?? ''),
    })
    await explained.unsafe(
      `load 'auto_explain'; set client_min_messages = log; set auto_explain.log_min_duration = 0`,
    )
    const { ref } = await created()
    const { filename, s3_path: path } = await service().upload(ref, file('kept.csv'))
    await makeClearUp({ sql: explained, objects: parts.objects })({ ...ref, filename, path })
    await explained.end()
    expect(plans.filter((plan) => plan.includes('outbox_intended'))).toHaveLength(1)
  })

  test('an upload killed before its object leaves only an intent', async () => {
    const { ref, prefix } = await created()
    const dead: Parts['objects'] = { ...parts.objects, stage: async () => new Promise(() => {}) }
    void service({ objects: dead }).upload(ref, file('lost.csv'))
    await until(
      () => intents(ref),
      (found) => found.length === 1,
    )
    await makeDue(ref)
    await performEffects()
    expect([await intents(ref), await keysUnder(prefix)]).toEqual([[], []])
  })

  test.each([
    ['', withoutKey],
    [' under a key', keyed()],
  ])('an upload killed while moving to a later name%s leaves intents for both objects', async (_, keyOf) => {
    const { ref, prefix } = await created()
    const { other, objects } = await meeting(ref)
    const killed: Parts['objects'] = {
      ...objects,
      async put(...put) {
        await parts.objects.put(...put)
        return new Promise(() => {})
      },
    }
    void service({ objects: killed }).upload(ref, file('met.csv'), keyOf)
    await until(
      () => keysUnder(prefix),
      (found) => found.length === 3,
    )
    expect(await intents(ref)).toHaveLength(2)
    await makeDue(ref)
    await performEffects()
    expect([await intents(ref), await keysUnder(prefix)]).toEqual([[], [other.s3_path]])
  })

  test('an upload delayed past its cleanup is 503 and leaves no file', async () => {
    const { ref, prefix } = await created()
    const asleep = namedThen(async () => {
      await makeDue(ref)
      await performEffects()
    })
    expect((await refusal(service({ objects: asleep }).upload(ref, file('slow.csv')))).status).toBe(503)
    expect([await keysUnder(prefix), (await service().files(ref, page)).total]).toEqual([[], 0])
  })

  test('an upload racing with its cleanup is either recorded or cleaned up', async () => {
    const { ref, prefix } = await created()
    const performing: Promise<unknown>[] = []
    const raced = namedThen(async () => {
      await makeDue(ref)
      performing.push(performEffects())
    })
    for (let turn = 0; turn < 20; turn++)
      await service({ objects: raced })
        .upload(ref, file(`raced-${turn}.csv`))
        .catch(() => {})
    await Promise.all(performing)
    await until(
      async () => {
        // Performs intents again that an earlier pass skipped, because an upload had locked them.
        await makeDue(ref)
        await performEffects()
        return intents(ref)
      },
      (left) => left.length === 0,
    )
    const { files } = await service().files(ref, page)
    expect((await keysUnder(prefix)).sort()).toEqual(files.map(({ s3_path: path }) => path).sort())
  })

  test('cleanup keeps the object of another upload at the same path', async () => {
    const { ref, prefix } = await created()
    void service({ objects: killedThen() }).upload(ref, file('same.csv'))
    const [path = ''] = await until(
      () => keysUnder(prefix),
      (found) => found.length === 1,
    )
    const [intent] = await intents(ref)
    await parts.sql`update outbox set tries = 1 where payload ->> 'path' = ${path}`
    // This upload runs on another replica, which does not know the first claim.
    void service({ objects: killedThen() }).upload(ref, file('same.csv'))
    await until(
      () => parts.objects.versions(path),
      ({ versions }) => versions.length === 2,
    )
    if (intent) await makeClearUp(parts)(intent.payload)
    expect((await parts.objects.versions(path)).versions).toHaveLength(2)
    await makeDue(ref)
    await performEffects()
    expect([await intents(ref), (await parts.objects.versions(path)).versions]).toEqual([[], []])
  })

  test('an upload that ends by itself leaves no intent', async () => {
    const { ref } = await created()
    await service().upload(ref, file('a.csv'))
    const over = formWith(new File([new Uint8Array(33_554_433)], 'over.csv'))
    expect((await refusal(service().upload(ref, over))).status).toBe(413)
    expect(await intents(ref)).toHaveLength(0)
  })
})

test('a landing file is found only under the zone that contains it', async () => {
  const [one, other] = [await created(), await created()]
  now = new Date('2026-03-01T07:00:00Z')
  const stored = await service().upload(one.ref, file('a.csv'))
  expect((await refusal(service().file(other.ref, stored.id))).status).toBe(404)
  expect((await refusal(service().removeFile(other.ref, stored.id))).status).toBe(404)
})
