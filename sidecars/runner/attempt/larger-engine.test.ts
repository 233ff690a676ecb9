import { expect, test } from 'bun:test'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { testDirectory } from '../../../tools/kit/directory.ts'
import { SpilledTooMuch, sameColumns, withinSpill } from './larger-engine.ts'

const columns = (...types: string[]) => types.map((type, index) => ({ name: `c${index}`, type }))

test('columns with types of one class are the same', () => {
  const duckdb = columns('DECIMAL(38,0)', 'TIMESTAMP', 'VARCHAR', 'INTEGER')
  expect(sameColumns(duckdb, columns('BIGINT', 'TIMESTAMP WITH TIME ZONE', 'VARCHAR', '"NULL"'))).toBe(duckdb)
})

test('other names, types or numbers of columns are refused', () => {
  const refusal = (spark: ReturnType<typeof columns>) => () => sameColumns(columns('VARCHAR', 'DATE'), spark)
  expect(refusal(columns('VARCHAR'))).toThrow('2 columns in DuckDB and 1 in Spark')
  expect(refusal(columns('VARCHAR', 'VARCHAR'))).toThrow('column "c1" is DATE in DuckDB and VARCHAR in Spark')
  expect(
    refusal([
      { name: 'C0', type: 'VARCHAR' },
      { name: 'x', type: 'DATE' },
    ]),
  ).toThrow('column 2 is "c1"')
})

const directory = testDirectory()

test('rows spilled beyond the limit abort the work, and the result does not count', async () => {
  const written = join(directory, 'written')
  await mkdir(written)
  await Bun.write(join(written, 'result.parquet'), 'x'.repeat(10_000))
  const options = { directory, written, bytes: 5_000, signal: new AbortController().signal }
  expect(await withinSpill(options, async () => 'done')).toBe('done')
  const aborted = withinSpill(options, async (signal) => {
    await Bun.write(join(directory, 'spill'), 'x'.repeat(6_000))
    await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
  })
  await expect(aborted).rejects.toThrow(SpilledTooMuch)
})
