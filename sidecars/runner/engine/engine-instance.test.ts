import { afterAll, beforeAll, expect, test } from 'bun:test'
import { testDirectory } from '../../../tools/kit/directory.ts'
import { EngineInstance } from './engine-instance.ts'

const tempDirectory = testDirectory()
let instance: EngineInstance
beforeAll(async () => {
  const size = { threads: 1, memoryLimitBytes: 100_000_000, tempLimitBytes: 1_000_000 }
  instance = await EngineInstance.prepare(size)
  await instance.open({ tempDirectory, allowedDirectories: [], allowedPaths: [], tables: [] })
})
afterAll(() => instance.close())

test.each([
  "select 1 as a, 'x' as b, true as c, 1.5 as d, 2.0::float as e, 1e3 as f, 7::utinyint as g, 3::hugeint as h",
  "select date '2026-01-01' as a, now() as b, now()::timestamp as c, time '10:00' as d, interval 1 day as e",
  "select now()::timestamp::timestamp_ns as a, now()::timestamp_s as b, '10:00+02'::timetz as c",
  "select uuid() as a, 'a'::blob as b, '101'::bit as c, '{}'::json as d, 'x'::enum('x', 'y') as e",
  'select null as a, [null] as b, {x: null} as c, map {1: null} as d, [] as e',
  'select [1, 2] as a, {x: 1, "y z": \'b\'} as b, [1, 2]::integer[2] as c, union_value(k := 1) as d',
  'select 1 as select_, 2 as "a b", 3, \'x\' collate nocase as c, 12345678901234567890 as d, 1::varint as e',
  'select sum(x) as a, avg(x) as b, count(*) as c, max(x) as d from range(3) t(x)',
])('define returns the columns that the engine reports for a view: %s', async (sql) => {
  const columns = await instance.define({ sql })
  const described = await instance.query({ sql: 'describe from sluice_result' })
  expect(columns.map(({ name, type }) => [name, type])).toEqual(
    described.map(([name, type]) => [name ?? '', type ?? '']),
  )
  await instance.show({ tables: [] })
})

test('a judged value has few characters, however large it is', async () => {
  const judged = await instance.judge({ sql: "select repeat('x', 1000000) as text", sampleRows: 3 })
  expect(judged).toMatchObject({ rowCount: 1, columnTypes: ['VARCHAR'] })
  expect(JSON.stringify(judged).length).toBeLessThan(70_000)
  const number = await instance.judge({ sql: 'select -(10::decimal(38, 4))/1 as number', sampleRows: 0 })
  expect(Number(number.first)).toBe(-10)
  const large = await instance.judge({ sql: "select ('-' || repeat('9', 1000))::bignum", sampleRows: 0 })
  expect(Number(large.first)).toBe(-Infinity)
})

test('the message of an engine error has a limited length', async () => {
  const failing = instance.run({ sql: "select error(repeat('long ', 1000000))" })
  const message = await failing.then(String, (error: Error) => error.message)
  expect(message).toContain('long long')
  expect(message.length).toBeLessThan(20_000)
})

test('a query with too many columns is refused before they are described', async () => {
  const columns = Array.from({ length: 10_001 }, (_, i) => `1 as c${i}`)
  await expect(instance.define({ sql: `select ${columns.join()}` })).rejects.toThrow('has 10001 columns')
})
