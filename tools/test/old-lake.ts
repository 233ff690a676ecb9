/**
 * Gives all states of a disk store's lake locations that begin with `sluice://lake/`, as earlier versions wrote them. The files
 * of the present states stay. Usage: `DATABASE_URL=... DATA_DIR=... bun tools/test/old-lake.ts`
 */
import { cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { convertTable } from '../../app/catalog/lake-conversion.ts'
import { moveStates, statesOutside, tablesOutside } from '../../app/catalog/store/lake-root.ts'
import { makeLog } from '../../app/core/log.ts'
import { openObjectStore } from '../../app/objects/open.ts'
import { openDatabase } from '../../drizzle/client.ts'

const OLD_ROOT = 'sluice://lake/'

const { DATABASE_URL, DATA_DIR } = process.env
if (DATABASE_URL === undefined || DATA_DIR === undefined) throw new Error('set DATABASE_URL and DATA_DIR')
const { sql, close } = openDatabase(DATABASE_URL, {
  connections: 1,
  rawConnections: 1,
  application: 'old lake',
})
// The running service holds the lock of its store, so a copy of the lake is converted.
const root = await mkdtemp(join(tmpdir(), 'sluice-old-'))
const lake = join(DATA_DIR, 'objects', '_lake')
await cp(lake, join(root, '_lake'), { recursive: true })
const objects = await openObjectStore({ kind: 'disk', root })
const log = makeLog('test', 'text', (line) => process.stderr.write(`${line}\n`))
for (const table of await tablesOutside(sql, OLD_ROOT)) {
  const states = await statesOutside(sql, OLD_ROOT, table)
  await moveStates(sql, await convertTable({ objects, root: OLD_ROOT, log }, states))
}
await objects.close()
await cp(join(root, '_lake'), lake, { recursive: true, force: false })
await rm(root, { recursive: true })
await close()
console.log('the lake is old ')
