/**
 * Keeps `docs/openapi.json` equal to the routes. As a program, this file writes the document. `-- release` also writes
 * `docs/openapi-v1.json`, the base of later comparisons. The checks compare both.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { composeService } from '../../app/compose.ts'
import type { ServiceParts } from '../../app/composition/parts.ts'
import { systemClock } from '../../app/core/clock.ts'
import { parseConfig } from '../../app/core/config.ts'
import { newId } from '../../app/core/ids.ts'
import { makeMetrics } from '../../app/core/metrics.ts'
import { testLog } from '../../app/test-app.ts'
import { uncorrected } from './openapi-corrections.ts'
import { breakingChanges } from './openapi-diff.ts'
import type { Json } from './openapi-schema.ts'

const DOCS = join(import.meta.dirname, '..', '..', 'docs')
const PRESENT = join(DOCS, 'openapi.json')
const RELEASED = join(DOCS, 'openapi-v1.json')

/** Returns the document of an open installation. The service is composed as usual, with parts that answer nothing. */
async function presentDocument(): Promise<Json> {
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
    return (await response.json()) as Json
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

const written = (document: Json) => `${JSON.stringify(document, null, 1)}\n`

/** Returns what is wrong with the committed document, or undefined. */
export async function openApiDrift(): Promise<string | undefined> {
  const committed = await readFile(PRESENT, 'utf8').catch(() => '')
  if (committed === written(await presentDocument())) return undefined
  return 'npm run generate changes docs/openapi.json'
}

/** Returns the changes that break clients of the last release, or undefined. */
export async function openApiBreaks(): Promise<string | undefined> {
  const released: Json = JSON.parse(await readFile(RELEASED, 'utf8'))
  const found = uncorrected(breakingChanges(released, await presentDocument()))
  if (found.length === 0) return undefined
  return `/api/v1 breaks clients of docs/openapi-v1.json:\n${found.join('\n')}`
}

if (import.meta.main) {
  const document = written(await presentDocument())
  await writeFile(PRESENT, document)
  if (process.argv.includes('release')) await writeFile(RELEASED, `${JSON.stringify(JSON.parse(document))}\n`)
  process.exit(0)
}
