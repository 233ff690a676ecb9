import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { type Database, openDatabase } from '../../drizzle/client.ts'
import type { Session } from '../../drizzle/session.ts'
import { type TestDatabase, testDatabase } from '../../tools/test/database.ts'
import { until } from '../../tools/test/until.ts'
import { addPipeline } from '../../workers/testing.ts'
import { makeEvaluator } from '../../workers/triggers.ts'
import { systemClock } from '../core/clock.ts'
import { newId, type PipelineId, type TriggerId } from '../core/ids.ts'
import { limits } from '../core/limits.ts'
import { type Log, makeLog } from '../core/log.ts'
import { formWith } from '../http/test-form.ts'
import { makeLandingZoneService } from '../landing-zones/service.ts'
import type { ObjectStore } from '../objects/port.ts'
import { makeHearAtOnce } from './at-once.ts'
import { makeTriggerService } from './service.ts'

setDefaultTimeout(60_000)

let database: TestDatabase
let opened: Database
let session: Session
beforeAll(async () => {
  database = await testDatabase()
  opened = openDatabase(database.url, { connections: 4, rawConnections: 12, application: 'test' })
  session = opened.session('uploads')
})
afterAll(async () => {
  await opened.close()
  await database.drop()
})

const noObjects = {
  async stage(body: AsyncIterable<Uint8Array>) {
    await Array.fromAsync(body)
    return {
      size: 1,
      name: async () => ({ versionId: '1', durable: Promise.resolve() }),
      discard: async () => {},
    }
  },
  deleteVersion: async (path: string) => void deleted.push(path),
} as unknown as ObjectStore
const deleted: string[] = []
const warnings: string[] = []
const log: Log = { ...makeLog('test', 'text'), warn: (message) => void warnings.push(message) }

let made = 0
/** A zone with a pipeline that hears its uploads. */
async function newZone({
  on = session,
  cooldownSeconds = 0,
  odd = newId,
  objects = noObjects,
  firesAtOnce = true,
} = {}) {
  const name = `z${made++}`
  const hints = { evaluator: 0, dispatcher: 0 }
  const zones = makeLandingZoneService({
    db: opened.db,
    sql: opened.sql,
    objects,
    clock: systemClock,
    newId,
    eventRecorded: () => hints.evaluator++,
    hearAtOnce: firesAtOnce ? makeHearAtOnce({ on, newId: odd, log, nudge: () => hints.dispatcher++ }) : null,
    requireNamespace: async () => {},
  })
  const ref = { namespace: 'default', name }
  await zones.create(ref)
  const { id: pipelineId } = await addPipeline(opened.sql, name, { landingZones: [], nudge: () => {} })
  const { id } = await makeTriggerService({ sql: opened.sql, newId }).create(
    { namespace: 'default', layer: 'gold', name },
    {
      type: 'file_pattern',
      config: { namespace: 'default', zone_name: name, pattern: '*.csv' },
      cooldown_seconds: cooldownSeconds,
    },
  )
  return {
    hints,
    pipelineId,
    triggerId: id as TriggerId,
    source: `zone:default.${name}`,
    upload: (file: string) => zones.upload(ref, formWith(new File(['x'], file))),
    files: async () => (await zones.files(ref, { limit: 100, offset: 0 })).files,
  }
}
type Zone = Awaited<ReturnType<typeof newZone>>

const runsOf = (id: PipelineId) =>
  opened.sql<
    { landing_file_id: string }[]
  >`select landing_file_id, trigger_event, trigger from run where pipeline_id = ${id} order by created_at`
const eventsOf = ({ source }: Zone) =>
  opened.sql<
    { subject: string; after_trigger: string | null }[]
  >`select subject, after_trigger from trigger_event where source = ${source}`
/** What the evaluator does when it is told, or at its next sweep. */
const sweep = () =>
  makeEvaluator({
    sql: opened.sql,
    write: (work) => opened.sql.begin(work) as never,
    newId,
    log,
    post: () => {},
  }).hear()
/** While somebody has the trigger. */
const whileLocked = <T>({ triggerId }: Zone, work: () => Promise<T>): Promise<T> =>
  opened.sql
    .begin(async (tx) => {
      await tx`select 1 from trigger where id = ${triggerId} for update`
      return { value: await work() }
    })
    .then(({ value }) => value)

test('an upload whose COMMIT went although its last statement failed on its way is answered with its file, which stays', async () => {
  const unsayable = () =>
    ({
      replaceAll: () => 'ab'.repeat(16),
      toJSON() {
        throw new TypeError('odd')
      },
    }) as unknown as string
  const zone = await newZone({ odd: unsayable as typeof newId })
  const file = await zone.upload('a.csv')
  expect(await zone.files()).toMatchObject([{ id: file.id, filename: file.filename }])
  expect(deleted).toEqual([])
  expect(zone.hints.evaluator).toBe(1)
  await sweep()
  expect(await runsOf(zone.pipelineId)).toMatchObject([{ landing_file_id: file.id }])
})

test('an upload has requested its run when it is answered, and leaves no event to anybody', async () => {
  const zone = await newZone()
  const file = await zone.upload('a.csv')
  expect(await runsOf(zone.pipelineId)).toMatchObject([{ landing_file_id: file.id, trigger_event: file.id }])
  expect(await eventsOf(zone)).toHaveLength(0)
  expect(zone.hints).toEqual({ evaluator: 0, dispatcher: 1 })
  await zone.upload('a.txt')
  expect(await runsOf(zone.pipelineId)).toHaveLength(1)
  expect(await eventsOf(zone)).toHaveLength(0)
})

test('a trigger that somebody has keeps no upload waiting: the evaluator fires it', async () => {
  const zone = await newZone()
  const file = await whileLocked(zone, () => zone.upload('a.csv'))
  expect(await runsOf(zone.pipelineId)).toHaveLength(0)
  expect(await eventsOf(zone)).toMatchObject([{ subject: file.id }])
  expect(zone.hints).toEqual({ evaluator: 1, dispatcher: 0 })
  expect(await sweep()).toMatchObject({ runs: 1 })
  expect(await runsOf(zone.pipelineId)).toMatchObject([{ landing_file_id: file.id }])
})

test('a trigger whose run cannot be stored costs no upload: its event is there for the evaluator', async () => {
  const zone = await newZone()
  await opened.sql.unsafe(
    `alter table run add constraint no_bad check (pipeline_id <> '${zone.pipelineId}') not valid`,
  )
  try {
    const file = await zone.upload('a.csv')
    expect(await zone.files()).toMatchObject([{ id: file.id }])
    expect(await eventsOf(zone)).toMatchObject([{ subject: file.id }])
    expect(zone.hints).toEqual({ evaluator: 1, dispatcher: 0 })
  } finally {
    await opened.sql`alter table run drop constraint no_bad`
  }
  expect(await sweep()).toMatchObject({ runs: 1 })
})

test('whatever our own code makes of a trigger costs no upload: its event is there for the evaluator', async () => {
  const zone = await newZone({
    odd: () => {
      throw new TypeError('not a function')
    },
  })
  const file = await zone.upload('a.csv')
  expect(await zone.files()).toMatchObject([{ id: file.id }])
  expect(await runsOf(zone.pipelineId)).toHaveLength(0)
  expect(zone.hints).toEqual({ evaluator: 1, dispatcher: 0 })
  expect(await sweep()).toMatchObject({ runs: 1 })
  expect(await runsOf(zone.pipelineId)).toMatchObject([{ landing_file_id: file.id, trigger_event: file.id }])
})

/** What a row can hold that no program of ours has written. */
const ODD_ROWS = {
  'an empty snapshot': { snapshot: {} },
  'a snapshot that is none': { snapshot: 'armed' },
  'a state that there is not': { snapshot: { value: 'odd', context: {}, status: 'active' } },
  'no pattern': { config: {} },
  'a configuration that is none': { config: 'any' },
  'a pattern that is none': { config: { pattern: '[' } },
  'a pattern that is no text': { config: { pattern: 7 } },
}
test.each(Object.entries(ODD_ROWS))(
  'a trigger with %s costs no upload, and no other trigger its run',
  async (_, columns) => {
    const zone = await newZone()
    const { id: otherId } = await addPipeline(opened.sql, `${zone.pipelineId}-other`, {
      landingZones: [],
      nudge: () => {},
    })
    await opened.sql`
      insert into trigger (id, pipeline_id, type, config, snapshot, machine_version, state, source)
      select ${newId()}, ${otherId}, type, config, snapshot, machine_version, state, source from trigger where id = ${zone.triggerId}`
    for (const [column, value] of Object.entries(columns))
      await opened.sql`
        update trigger set ${opened.sql(column)} = ${opened.sql.json(value as never)} where id = ${zone.triggerId}`
    const file = await zone.upload('a.csv')
    expect(await zone.files()).toMatchObject([{ id: file.id }])
    while ((await sweep()).hasMore);
    expect(await runsOf(otherId)).toMatchObject([{ landing_file_id: file.id }])
    expect(await runsOf(zone.pipelineId)).toHaveLength(0)
    expect(await eventsOf(zone)).toHaveLength(0)
  },
)

test.each([55, 40, 57].map((sqlstate) => `${sqlstate}P01`))(
  'a transaction that Postgres refuses (%s) costs no upload',
  async (sqlstate) => {
    const zone = await newZone()
    await opened.sql.unsafe(`
      create function refuse() returns trigger language plpgsql as $$ begin
        if new.pipeline_id = '${zone.pipelineId}' then raise exception 'not now' using errcode = '${sqlstate}'; end if;
        return new;
      end $$;
      create trigger refuse before insert on run for each row execute function refuse()`)
    try {
      const file = await zone.upload('a.csv')
      expect(await eventsOf(zone)).toMatchObject([{ subject: file.id }])
    } finally {
      await opened.sql`drop function refuse cascade`
    }
    expect(await sweep()).toMatchObject({ runs: 1 })
  },
)

test.each([
  ['with its triggers', true],
  ['alone', false],
])(
  'a file is recorded %s when its object is durable, and one whose object cannot be is none',
  async (_, firesAtOnce) => {
    const durable = Promise.withResolvers<void>()
    durable.promise.catch(() => {})
    const isNamed = Promise.withResolvers<void>()
    const zone = await newZone({
      firesAtOnce,
      objects: {
        async stage(body: AsyncIterable<Uint8Array>) {
          await Array.fromAsync(body)
          return {
            size: 1,
            async name() {
              isNamed.resolve()
              return { versionId: '1', durable: durable.promise }
            },
            discard: async () => {},
          }
        },
      } as unknown as ObjectStore,
    })
    const upload = zone.upload('a.csv').catch((error) => error)
    await isNamed.promise
    expect(await zone.files()).toHaveLength(0)
    warnings.length = 0
    durable.reject(new Error('the disk is broken'))
    expect(String(await upload)).toContain('the disk is broken')
    // Which is not the fault of any trigger.
    expect(warnings).toEqual([])
    const left = [await zone.files(), await runsOf(zone.pipelineId), await eventsOf(zone)]
    expect(left.map((rows) => rows.length)).toEqual([0, 0, 0])
  },
)

test('a slow disk under one upload holds up nobody else, and the evaluator fires its triggers', async () => {
  const disk = Promise.withResolvers<void>()
  const durable = [disk.promise].values()
  const objects = {
    ...noObjects,
    async stage(body: AsyncIterable<Uint8Array>) {
      const its = durable.next().value ?? Promise.resolve()
      await Array.fromAsync(body)
      return { size: 1, name: async () => ({ versionId: '1', durable: its }), discard: async () => {} }
    },
  } as unknown as ObjectStore
  const hasBegun = Promise.withResolvers<void>()
  const zone = await newZone({
    objects,
    on: {
      ...session,
      transaction: (work) =>
        session.transaction((tx) => {
          hasBegun.resolve()
          return work(tx)
        }),
    },
  })
  const other = await newZone({ firesAtOnce: false })
  warnings.length = 0
  const slow = zone.upload('slow.csv')
  await hasBegun.promise
  const quick = await zone.upload('quick.csv')
  const { id: otherFile } = await other.upload('a.csv')
  let isHeard = false
  const hearing = (async () => {
    while ((await sweep()).hasMore);
    isHeard = true
  })()
  try {
    await until(() => isHeard)
    expect(await runsOf(zone.pipelineId)).toMatchObject([{ landing_file_id: quick.id }])
    expect(await runsOf(other.pipelineId)).toMatchObject([{ landing_file_id: otherFile }])
    expect(await zone.files()).toMatchObject([{ id: quick.id }])
  } finally {
    disk.resolve()
    await Promise.all([slow, hearing])
  }
  expect(warnings).toEqual([])
  await sweep()
  const heard = (await runsOf(zone.pipelineId)).map((run) => run.landing_file_id)
  expect(heard).toEqual([quick.id, (await slow).id])
})

test('of more listeners than one transaction fires the rest is left to the evaluator, and each fires once', async () => {
  const zone = await newZone()
  await opened.sql`
    insert into trigger (id, pipeline_id, type, config, snapshot, machine_version, state, source)
    select gen_random_uuid(), pipeline_id, type, config, snapshot, machine_version, state, source
    from trigger, generate_series(1, ${limits.firingBatch + 9}) where id = ${zone.triggerId}`
  await zone.upload('a.csv')
  expect(await runsOf(zone.pipelineId)).toHaveLength(limits.firingBatch)
  expect(zone.hints).toEqual({ evaluator: 1, dispatcher: 1 })
  expect(await sweep()).toMatchObject({ runs: 10 })
  expect(await eventsOf(zone)).toHaveLength(0)
})

test('a cooldown lets one of two uploads through, and the other is forgotten', async () => {
  const zone = await newZone({ cooldownSeconds: 60 })
  for (const name of ['a.csv', 'b.csv']) await zone.upload(name)
  expect(await runsOf(zone.pipelineId)).toHaveLength(1)
  expect(await eventsOf(zone)).toHaveLength(0)
  expect(await zone.files()).toHaveLength(2)
})

test('of uploads at once, heard by two replicas and an evaluator, each has one run', async () => {
  const zone = await newZone()
  const uploads = Array.from({ length: 24 }, (_, n) => zone.upload(`${n}.csv`))
  const sweeps = Array.from({ length: 6 }, () => sweep())
  const files = await Promise.all(uploads)
  await Promise.all(sweeps)
  while ((await sweep()).hasMore);
  const heard = (await runsOf(zone.pipelineId)).map((run) => run.landing_file_id).sort()
  expect(heard).toEqual(files.map(({ id }) => id).sort())
  expect(await eventsOf(zone)).toHaveLength(0)
})

test('a connection that is lost between the record and its firing leaves neither, and the upload fails', async () => {
  const dying = opened.session('dying')
  const zone = await newZone({
    on: {
      ...dying,
      transaction: (work) =>
        dying.transaction(async (tx) => {
          const [backend] = await tx`select pg_backend_pid() as pid`
          return work(
            new Proxy(tx, {
              apply(target, self, args) {
                const ask = () => Reflect.apply(target, self, args)
                // The record is written, and who hears it is about to be asked.
                if (!String(args[0]).includes('with taken as')) return ask()
                return opened.sql`select pg_terminate_backend(${backend?.pid}, 5000)`.then(ask)
              },
            }),
          )
        }),
    },
  })
  await expect(zone.upload('a.csv')).rejects.toThrow('connection')
  expect([await runsOf(zone.pipelineId), await eventsOf(zone), await zone.files()]).toEqual([
    [],
    [],
    [],
  ] as never)
})
