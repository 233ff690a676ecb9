// Attack class: resource exhaustion. A full disk stops new work with a clear message and damages no existing data. The disks
// are small file systems of this service only.
import { open, readdir, readFile, rm, statfs, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from '@playwright/test'
import { eventually } from '../../kit/eventually.ts'
import { type OwnService, startOwnService } from '../../kit/own-service.ts'
import {
  expectError,
  getJson,
  newZone,
  publishedPipeline,
  writeFile as writeSource,
} from '../../kit/resources.ts'
import { requestRun } from '../../kit/runs.ts'
import { ended } from '../escape/attempts.ts'

const MIB = 1_048_576
const DISK_BYTES = 96 * MIB
const MOUNTS = `
mkdir -p "$DATA_DIR/objects" "$DATA_DIR/scratch/runner"
mount -t tmpfs -o size=${DISK_BYTES} objects "$DATA_DIR/objects"
mount -t tmpfs -o size=${DISK_BYTES} scratch "$DATA_DIR/scratch/runner"`

/** Acts as another tenant of the disk, which uses all space except `leftBytes`. Returns a function that frees the space. */
async function fill({ root, dataDir }: OwnService, leftBytes: number) {
  const objects = join(root, dataDir, 'objects')
  const path = join(objects, '~filler')
  const { bavail, bsize } = await statfs(objects)
  const file = await open(path, 'w')
  const piece = new Uint8Array(MIB / 4)
  for (let left = bavail * bsize - leftBytes; left >= piece.length; left -= piece.length)
    await file.write(piece)
  await file.close()
  return () => rm(path)
}

const unfinishedIn = async ({ root, dataDir }: OwnService) => {
  const objects = join(root, dataDir, 'objects')
  const lake = await readdir(join(objects, '_lake'), { recursive: true }).catch(() => [])
  return [...(await readdir(join(objects, '~tmp'))), ...lake.filter((path) => /(^|\/)~/.test(path))]
}

const fileOf = (bytes: number) => ({
  file: { name: 'large.csv', mimeType: 'text/csv', buffer: Buffer.alloc(bytes, 'a,b\n') },
})

test.describe('full disk', () => {
  test('a full disk delays runs and refuses writes until space is free', async ({ playwright }) => {
    const service = await startOwnService({ DISK_FLOOR: '32MB' }, undefined, MOUNTS)
    const request = await playwright.request.newContext({ baseURL: service.url })
    try {
      const pipeline = await publishedPipeline(request)
      const zone = await newZone(request)
      await zone.upload('small.csv')
      const release = await fill(service, 16 * MIB)

      const refused =
        /^not enough disk space: \d+ MB of disk space are free, and DISK_FLOOR is 32 MB; free some space/
      const path = `${pipeline.prefix}pipeline.sql`
      await expectError(await request.post(`${zone.url}/files`, { multipart: fileOf(100) }), 507, refused)
      await expectError(await request.post(`${zone.url}/samples`, { multipart: fileOf(100) }), 507, refused)
      await expectError(
        await request.put(`/api/v1/files/${path}`, { data: { content: 'select 2' } }),
        507,
        refused,
      )
      expect(await unfinishedIn(service)).toEqual([])

      // The runner checks its disk once a second.
      await eventually(async () => (await (await request.get('/health/ready')).json()).details).toEqual({
        runner: expect.stringMatching(/^runs wait: \d+ MB of disk space are free, and DISK_FLOOR is 32 MB$/),
        s3: expect.stringMatching(/^uploads are refused: \d+ MB of disk space are free/),
      })
      expect((await request.get('/health/ready')).status()).toBe(200)
      expect(service.log()).toContain('runs wait: ')
      const run = await requestRun(request, pipeline)
      await eventually(async () => (await getJson(request, `/api/v1/runs/${run}`)).status).toBe('pending')
      // Reads still work.
      expect((await request.get(`/api/v1/files/${path}`)).status()).toBe(200)

      await release()
      expect((await ended(request, run)).status).toBe('success')
      await zone.upload('again.csv')
      await writeSource(request, path, 'select 2 as a')
      await eventually(async () => (await (await request.get('/health/ready')).json()).details).toEqual({})
    } finally {
      await request.dispose()
      await service.stop()
    }
  })

  test('a disk that fills during an upload or run leaves no fragments', async ({ playwright }) => {
    const service = await startOwnService({ DISK_FLOOR: 'off' }, undefined, MOUNTS)
    const request = await playwright.request.newContext({ baseURL: service.url })
    try {
      const sql = 'select i, md5(i::varchar) || md5((i + 0.5)::varchar) as t from range(300000) r(i)'
      const pipeline = await publishedPipeline(request, sql)
      const zone = await newZone(request)
      const release = await fill(service, 4 * MIB)
      const objects = join(service.root, service.dataDir, 'objects')
      const before = (await statfs(objects)).bavail

      await expectError(
        await request.post(`${zone.url}/files`, { multipart: fileOf(24 * MIB) }),
        507,
        /^not enough disk space: the disk is full; free/,
      )
      expect(await unfinishedIn(service)).toEqual([])
      // The service itself writes and removes small files here, so one can exist at either measurement.
      await eventually(async () => (await statfs(objects)).bavail).toBeGreaterThanOrEqual(before)
      const { files } = await getJson(request, `${zone.url}/files`)
      expect(files).toEqual([])

      const failed = await ended(request, await requestRun(request, pipeline))
      expect([failed.status, failed.error]).toEqual([
        'failed',
        expect.stringContaining('the disk of the runner is full'),
      ])
      expect(await unfinishedIn(service)).toEqual([])

      await release()
      await zone.upload('again.csv')
      expect((await ended(request, await requestRun(request, pipeline))).status).toBe('success')
    } finally {
      await request.dispose()
      await service.stop()
    }
  })

  test('processes are replaced while the disk of the supervisor is full', async ({ playwright }) => {
    const mounts = 'mkdir -p "$DATA_DIR/run"\nmount -t tmpfs -o size=64k,mode=700 run "$DATA_DIR/run"'
    const service = await startOwnService({}, undefined, mounts)
    const request = await playwright.request.newContext({ baseURL: service.url })
    try {
      const directory = join(service.root, service.dataDir, 'run')
      const pidOf = async (part: string): Promise<number> => {
        const { processes } = JSON.parse(await readFile(join(directory, 'processes.json'), 'utf8'))
        return processes.find(({ name }: { name: string }) => name === part).pid
      }
      const [runner, query] = [await pidOf('runner'), await pidOf('query')]
      const filler = join(directory, 'filler')
      await expect(writeFile(filler, new Uint8Array(MIB))).rejects.toThrow('ENOSPC')
      process.kill(runner, 'SIGKILL')
      await eventually(() => service.log()).toContain('the list of processes cannot be written: ENOSPC')
      const pipeline = await publishedPipeline(request)
      expect((await ended(request, await requestRun(request, pipeline))).status).toBe('success')

      // The list is written with the next change of a process.
      await rm(filler)
      process.kill(query, 'SIGKILL')
      await eventually(() => pidOf('runner')).not.toBe(runner)
    } finally {
      await request.dispose()
      await service.stop()
    }
  })
})
