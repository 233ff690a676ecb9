import { expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import { testDirectory } from '../../../tools/kit/directory.ts'
import { jsonFault } from './json-fault.ts'

const directory = testDirectory()

test('an error about a value of JSON names file, row and the next step', async () => {
  await mkdir(join(directory, 'landing', 'z'), { recursive: true })
  const path = join(directory, 'landing', 'z', 'a.json')
  const instance = await DuckDBInstance.create(':memory:')
  const connection = await instance.connect()
  const said = async (content: string, more: string) => {
    writeFileSync(path, content)
    const error = await connection
      .run(`from read_json('${path}', ${more})`)
      .catch((reason: unknown) => reason)
    return error instanceof Error ? jsonFault(error.message) : error
  }
  expect(await said('{"id":1}\n{"id":2,"late":5}\n', 'sample_size=1')).toBe(
    'landing/z/a.json line 2: the key "late" comes after the rows that the reader looks at: look at all rows (sample_size=-1), or name the key in columns',
  )
  expect(await said('{"id":1}\n{"id":2,"id":5}\n', 'sample_size=-1')).toContain(
    'line 2: an object has the key "id" twice',
  )
  expect(await said('{"id":"x"}\n', "columns={'id': 'INT'}")).toMatch(
    /line 1: Failed to cast value to numerical: "x": correct the file, or read the key as text/,
  )
  connection.closeSync()
  instance.closeSync()
  expect(jsonFault('Binder Error: JSON transform error')).toBeNull()
})
