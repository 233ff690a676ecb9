import { beforeEach, expect, test } from 'bun:test'
import { EVERYTHING, type Visible } from '../core/access.ts'
import { systemClock } from '../core/clock.ts'
import { AppError } from '../core/errors.ts'
import { newId } from '../core/ids.ts'
import { formWith } from '../http/test-form.ts'
import { useParts } from '../pipelines/test-parts.ts'
import type { LandingFile } from './schema.ts'
import { makeLandingZoneService } from './service.ts'

const parts = useParts()
beforeEach(async () => {
  await parts.sql`truncate landing_zone, run, run_attempt, run_file cascade`
})

const ref = { namespace: 'default', name: 'visits' }
const page = { limit: 50, offset: 0 }

async function zoneWith(...names: string[]) {
  const service = makeLandingZoneService({ ...parts.deps, clock: systemClock })
  const { id: zoneId } = await service.create(ref)
  const files: LandingFile[] = []
  for (const name of names) files.push(await service.upload(ref, formWith(new File(['a\n1\n'], name))))
  return {
    zoneId,
    files,
    service,
    reads: async (fileId?: string, some = page, visible: Visible = EVERYTHING) => {
      const { reads, total } = await service.reads(ref, fileId, some, visible)
      return { total, reads }
    },
    async run({
      pipelineId = newId(),
      pipeline = 'visits',
      status = 'success',
      attempts = [files],
    }: {
      pipelineId?: string
      pipeline?: string
      status?: string
      /** The files of each attempt. */
      attempts?: { id: string }[][]
    } = {}) {
      const id = newId()
      await parts.sql`
        insert into run (id, pipeline_id, namespace, layer, pipeline, pipeline_type, trigger, pins, landing_zones, snapshot,
          machine_version, status, attempt, waiting)
        values (${id}, ${pipelineId}, 'default', 'bronze', ${pipeline}, 'sql', 'manual', '{}', '[]', '{}', 1, ${status},
          ${attempts.length}, false)`
      for (const [index, read] of attempts.entries()) {
        await parts.sql`
          insert into run_attempt (run_id, attempt, pipeline_id, branch, base_commit, landing_watermark, runner_url, state)
          values (${id}, ${index + 1}, ${pipelineId}, 'run', 0, 0, '', 'closed')`
        for (const { id: fileId } of read)
          await parts.sql`
            insert into run_file (run_id, attempt, landing_file_id, zone_id) values (${id}, ${index + 1}, ${fileId}, ${zoneId})`
      }
      return { id, pipelineId }
    },
  }
}

test('reads show the run, its pipeline and the state of the file', async () => {
  const { files, service, reads, run } = await zoneWith('one.csv', 'two.csv', 'three.csv')
  const [one, two, three] = files as [LandingFile, LandingFile, LandingFile]
  const { id } = await run()
  await parts.sql`update landing_file set archived_by_run = ${id}, archived_at = '2026-03-01T00:00:00Z' where id = ${one.id}`
  await service.removeFile(ref, two.id)
  const common = {
    run_id: id,
    namespace: 'default',
    layer: 'bronze',
    pipeline: 'visits',
    status: 'success' as const,
    read_at: expect.any(String),
  }
  const active = { archived_by_run: null, archived_at: null }
  expect(await reads()).toEqual({
    total: 3,
    reads: [
      {
        ...common,
        ...active,
        file_id: three.id,
        filename: three.filename,
        size_bytes: 4,
        file_status: 'active',
      },
      { ...common, ...active, file_id: two.id, filename: null, size_bytes: null, file_status: 'deleted' },
      {
        ...common,
        file_id: one.id,
        filename: one.filename,
        size_bytes: 4,
        file_status: 'archived',
        archived_by_run: id,
        archived_at: '2026-03-01T00:00:00.000Z',
      },
    ],
  })
})

test('pages follow the order of runs, and one file can be chosen', async () => {
  const { files, reads, run } = await zoneWith('one.csv', 'two.csv')
  const ids = [await run(), await run(), await run()].map(({ id }) => id).reverse()
  const everything = (await reads()).reads.map((read) => [read.run_id, read.file_id])
  expect(everything).toEqual(ids.flatMap((id) => [...files].reverse().map((file) => [id, file.id])))
  const paged = []
  for (const offset of [0, 2, 4, 6]) {
    const { reads: some, total } = await reads(undefined, { limit: 2, offset })
    expect(total).toBe(6)
    paged.push(...some.map((read) => [read.run_id, read.file_id]))
  }
  expect(paged).toEqual(everything)
  const ofOne = await reads(files[0]?.id)
  expect([ofOne.total, ofOne.reads.map((read) => read.run_id)]).toEqual([3, ids])
  expect(await reads(newId())).toEqual({ total: 0, reads: [] })
})

test('a run with several attempts shows the files of the latest attempt', async () => {
  const { files, reads, run } = await zoneWith('one.csv', 'two.csv')
  await run({ attempts: [files, files.slice(1)] })
  expect((await reads()).reads.map((read) => read.filename)).toEqual([files[1]?.filename as string])
})

test('runs of hidden pipelines are neither listed nor counted nor named', async () => {
  const { files, reads, run } = await zoneWith('one.csv')
  const [seen, hidden] = [await run({ pipeline: 'seen' }), await run({ pipeline: 'hidden' })]
  await parts.sql`update landing_file set archived_by_run = ${hidden.id}, archived_at = now() where id = ${files[0]?.id as string}`
  const visible = { ...EVERYTHING, pipelines: [seen.pipelineId] }
  expect(await reads(undefined, page, visible)).toMatchObject({
    total: 1,
    reads: [{ pipeline: 'seen', file_status: 'archived', archived_by_run: null }],
  })
  expect(await reads(undefined, page, { ...EVERYTHING, pipelines: [] })).toEqual({ total: 0, reads: [] })
  expect((await reads()).total).toBe(2)
})

test('reads of another zone and of a missing zone are not shown', async () => {
  const { service, run } = await zoneWith('one.csv')
  await run()
  await service.create({ namespace: 'default', name: 'empty' })
  expect(await service.reads({ namespace: 'default', name: 'empty' }, undefined, page)).toEqual({
    total: 0,
    reads: [],
  })
  expect(service.reads({ namespace: 'default', name: 'none' }, undefined, page)).rejects.toThrow(
    'landing zone default.none not found',
  )
})

test('a file is put in quarantine and restored', async () => {
  const { service, files, run, reads } = await zoneWith('a.csv', 'b.csv')
  const [file, other] = files
  if (file === undefined || other === undefined) throw new Error('the zone has no files')
  await run()
  expect(await service.quarantine(ref, file.id, true)).toEqual({ ...file, status: 'quarantined' })
  expect(await service.get(ref)).toMatchObject({ file_count: 1 })
  expect((await reads(file.id)).reads).toMatchObject([{ file_status: 'quarantined' }])
  expect((await service.files(ref, page)).files).toMatchObject([
    { id: other.id, status: 'active' },
    { id: file.id, status: 'quarantined' },
  ])
  expect(await service.quarantine(ref, file.id, false)).toEqual(file)
  expect(await service.get(ref)).toMatchObject({ file_count: 2 })
})

test('quarantine is refused while a run reads the file, and after archiving', async () => {
  const { service, files, run } = await zoneWith('a.csv')
  const [{ id, filename } = { id: '', filename: '' }] = files
  const reader = await run({ status: 'running' })
  await parts.sql`update run_attempt set state = 'open' where run_id = ${reader.id}`
  const refused = async (isIn: boolean) => {
    const error = await service.quarantine(ref, id, isIn).catch((thrown: unknown) => thrown)
    return error instanceof AppError ? [error.status, error.code, error.message] : error
  }
  expect(await refused(true)).toEqual([
    409,
    'FAILED_PRECONDITION',
    `run ${reader.id} reads file ${filename}: wait for its end, or cancel it`,
  ])
  await parts.sql`update run_attempt set state = 'closed' where run_id = ${reader.id}`
  await service.quarantine(ref, id, true)
  await parts.sql`update landing_file set archived_by_run = ${reader.id}, archived_at = now() where id = ${id}`
  const archived = [409, 'FAILED_PRECONDITION', `file ${filename} is archived by run ${reader.id}`]
  expect([await refused(true), await refused(false)]).toEqual([archived, archived])
  expect(await service.file(ref, id)).toMatchObject({ status: 'archived' })
})
