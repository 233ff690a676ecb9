import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { create } from '@bufbuild/protobuf'
import { LakeAccessSchema } from '../../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { makeLog } from '../../log.ts'
import { openObjectCache } from '../../object-cache.ts'
import { chooseWall } from '../../sandbox/wall.ts'
import { makeLake, openInstance } from '../attempt/lake-session.ts'
import { openWorkplace, type WorkplaceOptions } from '../attempt/workplace.ts'
import { type EnginePool, makeEnginePool } from '../engine/engine-pool.ts'
import { noPython } from '../test-no-python.ts'
import { makePreviewRooms, type PreviewRoom } from './preview-rooms.ts'

setDefaultTimeout(60_000)

const MIB = 1_048_576
const ENDLESS = '(select sum(a.range * b.range) as n from range(1000000) a, range(1000000) b)'
const log = makeLog('test', 'text', () => {})

let pool: EnginePool
let directory: string
let openLake: ReturnType<typeof makeLake>
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'sluice-rooms-'))
  openLake = makeLake({ lakeDir: null, cache: await openObjectCache(join(directory, 'cache'), MIB) })
  pool = makeEnginePool({
    directory: join(directory, 'engines'),
    inputs: join(directory, 'inputs'),
    size: { threads: 1, memoryLimitBytes: 100 * MIB, tempLimitBytes: MIB },
    // Who finds an engine free finds the room cleared.
    leasesMax: 1,
    wall: await chooseWall('auto', { readable: [], writable: [] }, log),
    log,
  })
})
afterAll(async () => {
  await pool.stop()
  await rm(directory, { recursive: true })
})

const means = (): WorkplaceOptions => ({
  openLake,
  pool,
  ...noPython,
})

async function makeRoom(): Promise<PreviewRoom> {
  const { signal } = new AbortController()
  const place = await openWorkplace(means(), create(LakeAccessSchema), signal)
  const instance = await openInstance(place.engine, [], place.directory, signal)
  return { place, instance, tables: '[]', landings: new Map(), kept: [], refused: new Set() }
}

test('who goes while a room is filled does not wait for it, and the room is cleared at once', async () => {
  const rooms = makePreviewRooms(log, 3_600_000)
  rooms.put('default.silver.a', await makeRoom(), [ENDLESS])
  const caller = new AbortController()
  const taken = rooms.take('default.silver.a', caller.signal)
  caller.abort(new Error('the caller is gone'))
  await expect(taken).rejects.toThrow('the caller is gone')
  await (await pool.take()).release()
  expect(await rooms.take('default.silver.a', new AbortController().signal)).toBeNull()
})

test('the rows of a room have one time limit together, however many calls read them', async () => {
  const rooms = makePreviewRooms(log, 500)
  const calls = Array.from({ length: 8 }, (_, n) => `(select sleep_ms(200) as slept, ${n} as n)`)
  rooms.put('default.silver.b', await makeRoom(), calls)
  expect(await rooms.take('default.silver.b', new AbortController().signal)).toBeNull()
  await (await pool.take()).release()
})

test('a room whose rows are read in time is the next one’s', async () => {
  const rooms = makePreviewRooms(log)
  const room = await makeRoom()
  rooms.put('default.silver.c', room, ['(select 1 as a)'])
  expect(await rooms.take('default.silver.c', new AbortController().signal)).toBe(room)
  expect(room.kept).toHaveLength(1)
  await rooms.clear(room)
})
