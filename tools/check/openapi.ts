/**
 * Keeps `docs/openapi.json` equal to the routes. As a program, this file writes the document.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { composeService } from '../../app/composition/compose.ts'
import type { ServiceParts } from '../../app/composition/parts.ts'
import { testLog } from '../../app/composition/test-app.ts'
import { parseConfig } from '../../app/config/config.ts'
import { systemClock } from '../../app/core/clock.ts'
import { newId } from '../../app/core/ids.ts'
import { makeMetrics } from '../../app/core/metrics.ts'

const DOCS = join(import.meta.dirname, '..', '..', 'docs')
const PRESENT = join(DOCS, 'openapi.json')

/** Returns the document of an open installation. The service is composed as usual, with parts that answer nothing. */
async function presentDocument(): Promise<unknown> {
  const nothing = silence()
  const service = await composeService({
    config: parseConfig({ DATABASE_URL: 'postgres://nobody@localhost/nothing' }, DOCS),
    log: testLog,
    metrics: makeMetrics(),
    clock: systemClock,
    newId,
    database: { db: nothing, sql: nothing, session: () => nothing } as ServiceParts['database'],
    patient: { db: nothing, sql: nothing } as ServiceParts['patient'],
    objects: nothing as ServiceParts['objects'],
    background: nothing as ServiceParts['background'],
  })
  try {
    const response = await service.app.fetch(
      new Request('http://localhost/swagger/json', { headers: { host: 'localhost' } }),
    )
    return await response.json()
  } finally {
    service.endStreams()
    await service.stop()
  }
}

/** A fake for every part. Each property is the fake itself, and each call resolves to one row with a text value. */
function silence(): unknown {
  const answer = () => Promise.resolve([{ value: 'nothing' }])
  const nothing: object = new Proxy(answer, {
    get: (_, name) => (name === 'then' || typeof name === 'symbol' ? undefined : nothing),
  })
  return nothing
}

const written = (document: unknown) => `${JSON.stringify(document, null, 1)}\n`

/** Returns what is wrong with the committed document, or undefined. */
export async function openApiDrift(): Promise<string | undefined> {
  const committed = await readFile(PRESENT, 'utf8').catch(() => '')
  if (committed === written(await presentDocument())) return undefined
  return 'npm run generate changes docs/openapi.json'
}

if (import.meta.main) {
  await writeFile(PRESENT, written(await presentDocument()))
  process.exit(0)
}
