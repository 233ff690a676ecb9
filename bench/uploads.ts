// Measures eight concurrent uploads of 32 MB over HTTP into the object store on the disk. Also measures the memory that they
// add to the idle API process. The limit is the same bytes put into a store of the same kind directly from memory, without the
// service.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '../app/core/clock.ts'
import { limits } from '../app/core/limits.ts'
import { openDiskStore } from '../app/objects/disk.ts'
import { residentBytes } from './client.ts'
import { startNoOpService } from './no-op-service.ts'

const AT_ONCE = 8
const ROUNDS = 6
const MB = 1_000_000
const BOUNDARY = '----flights-of-the-first-of-march'
/** Interval between two samples of the API process's memory. */
const LOOK_MS = 5
const SETTLE_MS = 3_000

export async function benchUploads() {
  const service = await startNoOpService()
  const root = await mkdtemp(join(tmpdir(), 'sluice-bench-'))
  const store = await openDiskStore(root, systemClock)
  try {
    const { call, dataDir } = service
    await call('POST', '/landing-zones', { namespace: 'default', name: 'drop' })
    const url = `${service.url}/api/v1/landing-zones/default/drop/files`
    const bytes = content()
    const form = formOf(bytes)
    // The first upload pays for compilation and allocation that happen once.
    await uploads(url, form, 1)
    await Bun.sleep(SETTLE_MS)
    const idle = residentBytes(dataDir, 'api')

    let most = idle
    const looks = setInterval(() => {
      most = Math.max(most, residentBytes(dataDir, 'api'))
    }, LOOK_MS)
    const raw: number[] = []
    const http: number[] = []
    for (let round = 0; round < ROUNDS; round++) {
      raw.push(await took(() => puts(store, bytes, round)))
      http.push(await took(() => uploads(url, form, AT_ONCE)))
    }
    clearInterval(looks)
    const rates = {
      'raw object store': rate(raw),
      'over HTTP': rate(http),
    }
    for (const [name, { median, best }] of Object.entries(rates))
      console.log(`  ${name.padEnd(28)} ${median.toFixed(0).padStart(6)} MB/s (best ${best.toFixed(0)})`)
    console.log(
      `  over HTTP / raw: ${((rates['over HTTP'].median / rates['raw object store'].median) * 100).toFixed(0)}%`,
    )
    console.log(
      `  memory of the API process: ${(idle / MB).toFixed(0)} MB idle, at most ${((most - idle) / MB).toFixed(0)} MB more while ${AT_ONCE} x 32 MB arrive`,
    )
  } finally {
    await store.close()
    await rm(root, { recursive: true })
    await service.stop()
  }
}

/** Lines of text, as in real uploads: the form parser meets many line ends, but none begins a boundary. */
const content = () =>
  new Uint8Array(
    Buffer.alloc(limits.uploadBytes, '2026-03-01,AA-1204,Reykjavík,Buenos Aires,17,on time,1204.50\r\n'),
  )

/** Builds the multipart body once, so that the client's work on its form is not measured. */
const formOf = (bytes: Uint8Array) =>
  new Uint8Array(
    Buffer.concat([
      Buffer.from(
        `--${BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="flights.csv"\r\nContent-Type: text/csv\r\n\r\n`,
      ),
      bytes,
      Buffer.from(`\r\n--${BOUNDARY}--\r\n`),
    ]),
  )

const uploads = (url: string, body: Uint8Array<ArrayBuffer>, count: number) =>
  Promise.all(
    Array.from({ length: count }, async () => {
      const response = await fetch(url, {
        method: 'POST',
        headers: { 'content-type': `multipart/form-data; boundary=${BOUNDARY}` },
        body,
      })
      if (response.status !== 201) throw new Error(`${response.status} ${await response.text()}`)
    }),
  )

const puts = (store: Awaited<ReturnType<typeof openDiskStore>>, bytes: Uint8Array, round: number) =>
  Promise.all(
    Array.from({ length: AT_ONCE }, (_, n) => store.put(`default/landing/drop/${round}-${n}`, pieces(bytes))),
  )

/** Yields the bytes in pieces, as the body of a request arrives. */
async function* pieces(bytes: Uint8Array) {
  for (let at = 0; at < bytes.byteLength; at += 262_144) yield bytes.subarray(at, at + 262_144)
}

async function took(work: () => Promise<unknown>) {
  const since = performance.now()
  await work()
  return performance.now() - since
}

function rate(times: readonly number[]) {
  const rates = times.map((ms) => (AT_ONCE * limits.uploadBytes) / MB / (ms / 1000)).sort((a, b) => a - b)
  return { median: rates[Math.floor(rates.length / 2)] ?? Number.NaN, best: rates.at(-1) ?? Number.NaN }
}
