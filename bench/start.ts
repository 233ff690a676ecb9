// Measures the time from start to ready on an existing data directory, and the memory of the idle API process.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startService } from '../tools/service/service.ts'
import { residentBytes } from './client.ts'
import { figuresOf, printFigures } from './figures.ts'

const STARTS = 10
const SETTLE_MS = 5_000
const MB = 1_048_576

export async function benchStart() {
  const dataDir = await mkdtemp(join(tmpdir(), 'sluice-bench-'))
  const samples: number[] = []
  try {
    // The first start creates the data and is not counted.
    for (let n = 0; n <= STARTS; n++) {
      const since = performance.now()
      const service = await startService({ LOG_FORMAT: 'text', DATA_DIR: dataDir })
      if (n > 0) samples.push(performance.now() - since)
      if (n === STARTS) {
        await Bun.sleep(SETTLE_MS)
        console.log(`  idle memory of the API process: ${(residentBytes(dataDir, 'api') / MB).toFixed(0)} MB`)
      }
      await service.stop()
    }
  } finally {
    await rm(dataDir, { recursive: true, force: true })
  }
  printFigures({ 'start to ready': figuresOf(samples) }, 'start to ready')
}
