import { afterAll, beforeAll, expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import { testDirectory } from '../../../tools/kit/directory.ts'
import { csvFault } from './csv-fault.ts'

const directory = testDirectory()
let instance: DuckDBInstance
beforeAll(async () => {
  await mkdir(join(directory, 'landing', 'drops'), { recursive: true })
  instance = await DuckDBInstance.create(':memory:')
})
afterAll(() => instance.closeSync())

const MANY = `day,visitors\n${'2026-06-01,1\n'.repeat(30_000)}`
const FEW = 'day,visitors\n2026-06-01,1\n'
const TYPED = "columns = {'day': 'DATE', 'visitors': 'INTEGER'}"

/** The message for a file with this content. */
async function said(content: string | Uint8Array, options = ''): Promise<string | null> {
  const path = join(directory, 'landing', 'drops', '20260101_000000_a b.csv')
  writeFileSync(path, content)
  const connection = await instance.connect()
  const error = await connection.run(`FROM read_csv('${path}'${options && `, ${options}`})`).then(
    () => null,
    (thrown: Error) => thrown,
  )
  connection.closeSync()
  return error && csvFault(error.message)
}

const FILE = 'landing/drops/20260101_000000_a b.csv'

test('the message names file, line, column, reason and remedy in one line', async () => {
  expect(await said(`${MANY}2026-06-02,many\n`)).toBe(
    `${FILE} line 30002, column "visitors": "many" is not of type BIGINT: correct the file, or read the column as text (types={'visitors': 'VARCHAR'})`,
  )
  expect(await said(`${FEW}2026-06-02,"a\nb"\n`, TYPED)).toStartWith(
    `${FILE} line 3, column "visitors": "a\\nb" is not of type INTEGER: `,
  )
  expect(await said(`${MANY}2026-06-02,1,2\n`)).toBe(
    `${FILE} line 30002: 3 columns instead of 2 in "2026-06-02,1,2": correct the row, or skip such rows (ignore_errors=true)`,
  )
  expect(await said(new Uint8Array([...Buffer.from(FEW), 0x61, 0xff, 0x2c, 0x31, 0x0a]))).toMatch(
    /^landing\/drops\/20260101_000000_a b\.csv line \d+: text that is not UTF-8: save the file as UTF-8/,
  )
  expect(await said('a,b\n1,2\n3\n"x,4\n', "columns = {'a': 'INT', 'b': 'INT'}")).toBe(
    `${FILE}: the format of this CSV file is not recognized: give delim and quote to read_csv, or correct the file`,
  )
})

test('other errors are not rewritten', () => {
  expect(csvFault('Binder Error: Referenced column "nope" not found in FROM clause!')).toBeNull()
  expect(csvFault("Conversion Error: Could not convert string 'x' to INT32")).toBeNull()
})
