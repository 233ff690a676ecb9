import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import {
  Binary,
  BufferType,
  Data,
  type DataType,
  DateDay,
  Decimal,
  Field,
  FixedSizeList,
  Float64,
  Int32,
  Int64,
  List,
  Map_,
  makeData,
  Null,
  RecordBatch,
  RecordBatchStreamWriter,
  Schema,
  Struct,
  TimestampMicrosecond,
  tableFromIPC,
  Utf8,
} from 'apache-arrow'
import fc from 'fast-check'
import { arrowBytes, ResultTooLarge } from './arrow.ts'
import { requireSound } from './arrow-batches.ts'
import { arrowToJson, SchemaTooLarge } from './arrow-json.ts'
import { JsonBytes, JsonTooLarge } from './json-bytes.ts'
import { fieldsOf, valuesOf } from './json-cells.ts'
import { uniqueNames } from './json-shape.ts'
import { useConnection } from './test-connection.ts'
import { arraysOf, type JsonValue, objectsOf, textOf } from './test-json.ts'

setDefaultTimeout(60_000)

const connection = await useConnection()
await connection.run("SET TimeZone = 'UTC'")

const arrow = async (sql: string) => (await arrowBytes(await connection.stream(sql))).bytes
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
/** Both shapes must contain the same text. */
async function table(sql: string) {
  const ipc = await arrow(sql)
  const [objects, arrays] = [await textOf(ipc), await arraysOf(ipc)]
  expect(arrays.columns).toEqual(objects.columns)
  const names = objects.columns.map(({ name }) => JSON.stringify(name))
  const rows = arrays.rows.map((row) => `{${row.map((v, n) => `${names[n]}:${JSON.stringify(v)}`).join()}}`)
  expect(JSON.parse(`[${objects.text}]`)).toEqual(JSON.parse(`[${rows.join()}]`))
  return arrays
}
const value = async (expression: string): Promise<JsonValue | undefined> =>
  (await table(`SELECT ${expression} AS x`)).rows[0]?.[0]
const texts = async (sql: string) => (await connection.runAndReadAll(sql)).getRowsJson()

describe('values as JSON', () => {
  const cases: [expression: string, type: string, json: JsonValue][] = [
    ['true', 'BOOLEAN', true],
    ['(-128)::TINYINT', 'TINYINT', -128],
    ['255::UTINYINT', 'UTINYINT', 255],
    ['(-32768)::SMALLINT', 'SMALLINT', -32_768],
    ['65535::USMALLINT', 'USMALLINT', 65_535],
    ['(-2147483648)::INTEGER', 'INTEGER', -2_147_483_648],
    ['4294967295::UINTEGER', 'UINTEGER', 4_294_967_295],
    ['9007199254740991::BIGINT', 'BIGINT', 9_007_199_254_740_991],
    ['9007199254740992::BIGINT', 'BIGINT', '9007199254740992'],
    ['(-9007199254740991)::BIGINT', 'BIGINT', -9_007_199_254_740_991],
    ['(-9007199254740992)::BIGINT', 'BIGINT', '-9007199254740992'],
    ['9007199254740993::UBIGINT', 'UBIGINT', '9007199254740993'],
    ['(-1)::BIGINT', 'BIGINT', -1],
    ['(-9223372036854775808)::BIGINT', 'BIGINT', '-9223372036854775808'],
    ['18446744073709551615::UBIGINT', 'UBIGINT', '18446744073709551615'],
    ['sum(1)', 'HUGEINT', 1],
    [
      '(-170141183460469231731687303715884105728)::HUGEINT',
      'HUGEINT',
      '-170141183460469231731687303715884105728',
    ],
    [
      '340282366920938463463374607431768211455::UHUGEINT',
      'UHUGEINT',
      '340282366920938463463374607431768211455',
    ],
    [
      "'123456789012345678901234567890123456789012345'::BIGNUM",
      'BIGNUM',
      '123456789012345678901234567890123456789012345',
    ],
    ["'-7'::BIGNUM", 'BIGNUM', -7],
    ['0.1::FLOAT', 'FLOAT', 0.1],
    ['16777217::FLOAT', 'FLOAT', 16_777_216],
    ['0.1::DOUBLE', 'DOUBLE', 0.1],
    ["'nan'::DOUBLE", 'DOUBLE', null],
    ["'-inf'::FLOAT", 'FLOAT', null],
    ['-1.5::DECIMAL(4,2)', 'DECIMAL(4,2)', -1.5],
    ['-0.05::DECIMAL(9,2)', 'DECIMAL(9,2)', -0.05],
    ['-999999999999.999::DECIMAL(15,3)', 'DECIMAL(15,3)', -999_999_999_999.999],
    ['0.000000000000001::DECIMAL(15,15)', 'DECIMAL(15,15)', 1e-15],
    ['999999999999999::DECIMAL(15,0)', 'DECIMAL(15,0)', 999_999_999_999_999],
    ['0.01::DECIMAL(16,2)', 'DECIMAL(16,2)', '0.01'],
    ['-12345678901234567890.123456789::DECIMAL(38,9)', 'DECIMAL(38,9)', '-12345678901234567890.123456789'],
    ["DATE '2001-02-03'", 'DATE', '2001-02-03'],
    ["DATE '0044-03-15 (BC)'", 'DATE', '-000043-03-15'],
    ["DATE '12345-01-01'", 'DATE', '+012345-01-01'],
    ["DATE 'infinity'", 'DATE', null],
    ["TIME '03:04:05.25'", 'TIME', '03:04:05.25'],
    ["TIME_NS '03:04:05.000000007'", 'TIME_NS', '03:04:05.000000007'],
    ["TIMETZ '03:04:05+05:30'", 'TIME WITH TIME ZONE', '03:04:05+05:30'],
    ["TIMESTAMP '2001-02-03 04:05:06.789'", 'TIMESTAMP', '2001-02-03T04:05:06.789'],
    ["TIMESTAMP '1969-12-31 23:59:59.999999'", 'TIMESTAMP', '1969-12-31T23:59:59.999999'],
    ["TIMESTAMP '-infinity'", 'TIMESTAMP', null],
    ["TIMESTAMP_S '2001-02-03 04:05:06'", 'TIMESTAMP_S', '2001-02-03T04:05:06'],
    ["TIMESTAMP_MS '2001-02-03 04:05:06.007'", 'TIMESTAMP_MS', '2001-02-03T04:05:06.007'],
    ["TIMESTAMP_NS '2001-02-03 04:05:06.000000001'", 'TIMESTAMP_NS', '2001-02-03T04:05:06.000000001'],
    ["TIMESTAMPTZ '2001-02-03 04:05:06+02'", 'TIMESTAMP WITH TIME ZONE', '2001-02-03T02:05:06Z'],
    ["INTERVAL '14 months 3 days 4 hours'", 'INTERVAL', '1 year 2 months 3 days 04:00:00'],
    ["'it''s 🦆'", 'VARCHAR', "it's 🦆"],
    [`'"' || chr(92) || chr(10) || chr(1) || chr(127)`, 'VARCHAR', '"\\\n\u0001\u007f'],
    ["chr(65279) || 'a'", 'VARCHAR', '\ufeffa'],
    ["''", 'VARCHAR', ''],
    ["'\\x00\\xFF'::BLOB", 'BLOB', 'AP8='],
    ["'10101'::BIT", 'BIT', '10101'],
    ["'a'::ENUM('a', 'b')", "ENUM('a', 'b')", 'a'],
    ['\'{"a": [1]}\'::JSON', 'JSON', '{"a": [1]}'],
    ["'00000000-0000-0000-0000-00000000002a'::UUID", 'UUID', '00000000-0000-0000-0000-00000000002a'],
    ['[1, NULL, 3]', 'INTEGER[]', [1, null, 3]],
    ['[]::INTEGER[]', 'INTEGER[]', []],
    ['[1, 2]::INTEGER[2]', 'INTEGER[2]', [1, 2]],
    [
      `{a: 1, "b c": 'x', n: NULL::DATE}`,
      'STRUCT(a INTEGER, "b c" VARCHAR, n DATE)',
      { a: 1, 'b c': 'x', n: null },
    ],
    ["row(1, 'x')", 'STRUCT(INTEGER, VARCHAR)', [1, 'x']],
    ["MAP {'a': 1, 'b': NULL}", 'MAP(VARCHAR, INTEGER)', { a: 1, b: null }],
    ['MAP {1: [2]}', 'MAP(INTEGER, INTEGER[])', { '1': [2] }],
    ["MAP {{k: 1}: 'x'}", 'MAP(STRUCT(k INTEGER), VARCHAR)', { '{"k":1}': 'x' }],
    ['union_value(num := 1.5::DOUBLE)', 'UNION(num DOUBLE)', '1.5'],
    ['42::VARIANT', 'VARIANT', '42'],
    ['[1::HUGEINT, 9007199254740993]', 'HUGEINT[]', [1, '9007199254740993']],
    [
      "{d: 1.5::DECIMAL(20,1), l: [INTERVAL '1 day']}",
      'STRUCT(d DECIMAL(20,1), l INTERVAL[])',
      { d: '1.5', l: ['1 day'] },
    ],
    ['[union_value(a := 1), NULL]', 'UNION(a INTEGER)[]', ['1', null]],
    ["[{b: 'a'::ENUM('x', 'a')}]", "STRUCT(b ENUM('x', 'a'))[]", [{ b: 'a' }]],
  ]
  test.each(cases)('writes %s as %s', async (expression, type, json) => {
    const { columns, rows } = await table(`SELECT ${expression} AS x`)
    expect(columns).toEqual([{ name: 'x', type }])
    expect(rows).toEqual([[json]])
    expect(
      (await table(`SELECT NULL::${type === 'STRUCT(INTEGER, VARCHAR)' ? 'INTEGER' : type} AS x`)).rows,
    ).toEqual([[null]])
  })

  test('names every type like the engine does', async () => {
    for (const [expression, type] of cases) {
      const [described] = await texts(`DESCRIBE SELECT ${expression} AS x`)
      expect(described?.[1]).toBe(type)
    }
  })
})

describe('every type of the engine', () => {
  /** One row with the smallest values, one with the largest, one with NULLs. */
  const ALL = 'SELECT * EXCLUDE (medium_enum, large_enum) FROM test_all_types()'
  /** Converts the engine's text of a value to the service's form, where the two forms differ. */
  const same: Record<string, (text: string) => JsonValue> = {
    BOOLEAN: (text) => text === 'true',
    FLOAT: Number,
    DOUBLE: Number,
    'DECIMAL(4,1)': Number,
    'DECIMAL(9,4)': Number,
    TIMESTAMP_NS: (text) => text.replace(' ', 'T'),
  }
  const integer = (text: string) => (Number.isSafeInteger(Number(text)) ? Number(text) : text)

  test('reads every type of the engine, including NULLs', async () => {
    const { columns, rows } = await table(ALL)
    const described = (await texts(`DESCRIBE ${ALL}`)).map(([name]) => name)
    expect(columns.map(({ name }) => name)).toEqual(described.map(String))
    expect(rows).toHaveLength(3)
    expect(rows[2]?.every((each) => each === null)).toBe(true)
    expect(rows[0]?.filter((each) => each === null)).toEqual([])
  })

  test('writes the same value as the engine for every type', async () => {
    const { columns, rows } = await table(ALL)
    const engineTexts = await texts(`SELECT COLUMNS(*)::VARCHAR FROM (${ALL})`)
    const checked = columns.filter(({ type }, column) => {
      const convert = same[type] ?? (/INT(EGER)?$|BIGNUM/.test(type) ? integer : undefined)
      const isText = /^(VARCHAR|UUID|INTERVAL|BIT|ENUM.*|UNION.*|TIME|TIME_NS|TIME WITH TIME ZONE)$/.test(
        type,
      )
      if (convert === undefined && !isText) return false
      for (const row of [0, 1]) {
        const text = String(engineTexts[row]?.[column])
        expect([type, rows[row]?.[column]]).toEqual([type, convert === undefined ? text : convert(text)])
      }
      return true
    })
    expect(checked.length).toBeGreaterThan(25)
  })

  test('writes values nested in lists, structs, maps and arrays unchanged', async () => {
    const { columns, rows } = await table(ALL)
    for (const [index, { name }] of columns.entries()) {
      const [low, high] = [rows[0]?.[index] ?? null, rows[1]?.[index] ?? null]
      const quoted = `"${name}"`
      const nested =
        await table(`SELECT list(${quoted} ORDER BY rowid), list({v: ${quoted}, w: [${quoted}]} ORDER BY rowid)
        FROM (SELECT *, row_number() OVER () AS rowid FROM (${ALL}))`)
      expect([name, nested.rows[0]]).toEqual([
        name,
        [[low, high, null], [low, high, null].map((each) => ({ v: each, w: [each] }))],
      ])
      const others =
        await table(`SELECT MAP {'k': ${quoted}}, [${quoted}, ${quoted}]::${columns[index]?.type}[2]
        FROM (${ALL})`)
      expect([name, others.rows]).toEqual([
        name,
        [low, high, null].map((each) => [{ k: each }, [each, each]]),
      ])
    }
  })

  test('reads every type over many chunks with NULLs', async () => {
    const { rows } = await table(`SELECT i, a.* EXCLUDE (rowid)
      FROM (SELECT range AS i, range % 3 AS rowid FROM range(5000)) r
      JOIN (SELECT *, row_number() OVER () - 1 AS rowid FROM (${ALL})) a USING (rowid) ORDER BY i`)
    const once = (await table(ALL)).rows
    expect(rows).toHaveLength(5_000)
    for (const index of [0, 1, 2, 2_047, 2_048, 2_049, 4_095, 4_096, 4_999])
      expect(rows[index]).toEqual([index, ...(once[index % 3] ?? [])])
  })

  test('describes the columns of a result without rows', async () => {
    const { columns, rows } = await table(`${ALL} WHERE bool IS NULL AND bool`)
    expect(rows).toEqual([])
    expect(columns).toEqual((await table(ALL)).columns)
  })
})

describe('column memory in unusual layouts', () => {
  test('reads lists that are unordered, shared, filtered or NULL', async () => {
    const { rows } =
      await table(`SELECT i, l, l[2:], [x, x], CASE WHEN i % 5 = 0 THEN NULL ELSE [{a: l, b: 'text longer than twelve ' || i}] END
      FROM (SELECT range AS i, [range, NULL, range + 1] AS l, ['s' || range] AS x FROM range(3000)) WHERE i % 2 = 1 ORDER BY i DESC`)
    expect(rows).toHaveLength(1_500)
    expect(rows[2]).toEqual([2995, [2995, null, 2996], [null, 2996], [['s2995'], ['s2995']], null])
    expect(rows[1_499]).toEqual([
      1,
      [1, null, 2],
      [null, 2],
      [['s1'], ['s1']],
      [{ a: [1, null, 2], b: 'text longer than twelve 1' }],
    ])
  })

  test('reads one constant for all rows', async () => {
    const { rows } = await table(
      `SELECT [1, 2], {a: ['x']}, MAP {'k': [1]}, 'constant text of some length', NULL FROM range(3000)`,
    )
    expect(new Set(rows.map((row) => JSON.stringify(row)))).toEqual(
      new Set(['[[1,2],{"a":["x"]},{"k":[1]},"constant text of some length",null]']),
    )
    expect(rows).toHaveLength(3_000)
  })

  test('reads structs and arrays below NULLs in any order', async () => {
    const { rows } = await table(`SELECT i, {a: {b: l}}, if(i % 3 = 0, NULL, {a: [l, NULL]})
      FROM (SELECT range AS i, if(range % 2 = 0, NULL, [range, range + 1])::BIGINT[2] AS l FROM range(2500)) ORDER BY hash(i)`)
    for (const [i, first, second] of rows) {
      const l = Number(i) % 2 === 0 ? null : [Number(i), Number(i) + 1]
      expect([first, second]).toEqual([{ a: { b: l } }, Number(i) % 3 === 0 ? null : { a: [l, null] }])
    }
  })
})

describe('the Arrow stream', () => {
  test('writes a stream that Arrow reads, with type names', async () => {
    const read = tableFromIPC(
      await arrow("SELECT 1 AS a, 'x' AS b, 1.5::DECIMAL(14,2) AS d FROM range(5000)"),
    )
    expect(read.numRows).toBe(5_000)
    expect(read.schema.fields.map((field) => field.metadata.get('sluice.type'))).toEqual([
      'INTEGER',
      'VARCHAR',
      'DECIMAL(14,2)',
    ])
  })

  test('stops a streaming query at the row limit', async () => {
    const result = await connection.stream('SELECT range FROM range(1_000_000_000_000)')
    expect(await arrowBytes(result, { rowsLimit: 40_000 })).toMatchObject({ rows: 40_000, truncated: true })
  })

  test.each([
    [5_000, 10_000, 5_000, false],
    [5_000, 5_000, 5_000, false],
    [5_000, 4_999, 4_999, true],
    [5_000, 2_048, 2_048, true],
    [5_000, 0, 0, true],
    [0, 0, 0, false],
  ])('limits %p rows with limit %p to %p rows, truncated: %p', async (there, rowsLimit, rows, truncated) => {
    const result = await connection.stream(`SELECT range, [range], 'x' FROM range(${there})`)
    const summary = await arrowBytes(result, { rowsLimit })
    expect([summary.rows, summary.truncated]).toEqual([rows, truncated])
    expect((await arraysOf(summary.bytes, rows)).rows).toHaveLength(rows)
  })

  test('refuses a result above the byte limit', async () => {
    const result = await connection.stream("SELECT repeat('x', 1000) FROM range(1_000_000)")
    await expect(arrowBytes(result, { bytesLimit: 1_000_000 })).rejects.toThrow(ResultTooLarge)
  })

  test('reports a failed streaming query as an error, never a short result', async () => {
    const result = await connection.stream(
      "SELECT if(range = 400_000, error('late'), range) FROM range(500_000)",
    )
    await expect(arrowBytes(result)).rejects.toMatchObject({ name: 'EngineError', kind: 'other' })
    const stopped = await connection.stream('SELECT range FROM range(1_000_000_000) WHERE random() < 2')
    const stop = setInterval(() => connection.interrupt(), 5)
    await expect(arrowBytes(stopped)).rejects.toThrow('failed or was interrupted')
    clearInterval(stop)
  })

  test('writes the results of EXPLAIN and DESCRIBE', async () => {
    expect((await table('EXPLAIN SELECT 1')).columns.map(({ name }) => name)).toEqual([
      'explain_key',
      'explain_value',
    ])
    expect((await table('DESCRIBE SELECT 1 AS a')).rows[0]?.slice(0, 2)).toEqual(['a', 'INTEGER'])
  })
})

/** How often other tasks run during a call. */
async function turnsOf<T>(call: () => Promise<T>): Promise<{ turns: number; answer: T }> {
  let turns = 0
  const note = () => {
    turns += 1
    next = setImmediate(note)
  }
  let next = setImmediate(note)
  const answer = await call()
  clearImmediate(next)
  return { turns, answer }
}

describe('a large JSON result', () => {
  const MANY = 300_000
  /** The pieces of a heavy value must equal the text of light values. */
  const HEAVY: [name: string, sql: string][] = [
    ['list', `SELECT range(${MANY}) AS x`],
    ['list with NULLs', `SELECT list_transform(range(${MANY}), n -> if(n % 3 = 0, NULL, n)) AS x`],
    ['structs', `SELECT list_transform(range(${MANY / 10}), n -> {'a': n, 'b': [n::VARCHAR, NULL]}) AS x`],
    ['array', 'SELECT range(30000)::BIGINT[30000] AS x'],
    ['tuples', `SELECT list_transform(range(${MANY / 10}), n -> row(n, 'é"')) AS x`],
    ['map', `SELECT map_from_entries(list_transform(range(${MANY / 10}), n -> (n, [n]))) AS x`],
    ['map with a heavy key', `SELECT MAP {list_transform(range(${MANY / 10}), n -> n || '"'): 'v'} AS x`],
    ['map with a heavy text as key', `SELECT MAP {repeat('k"', ${MANY}): NULL} AS x`],
    ['maps in keys of maps', `SELECT ${'MAP {'.repeat(16)}1${': 1}'.repeat(16)} AS x`],
    ['blob', `SELECT repeat('abcd', ${MANY})::BLOB AS x`],
    ['wide row', `SELECT ${Array.from({ length: 3_000 }, (_, n) => `repeat('${n % 10}', 100) AS c${n}`)}`],
    ['many rows', `SELECT range AS n, [range] AS l, 'text ' || range AS t FROM range(20000)`],
    ['huge number', `SELECT repeat('9', 1000)::BIGNUM AS x FROM range(200)`],
  ]
  test.each(HEAVY)('pauses inside a heavy value: %s', async (_, sql) => {
    const ipc = await arrow(sql)
    const { turns, answer } = await turnsOf(() => arrowToJson(ipc, { shape: 'arrays', rows: 20_000 }))
    expect(turns).toBeGreaterThan(2)
    const rows = JSON.parse(`[${Buffer.concat(answer.chunks).toString()}]`)
    const engineJson = (await connection.runAndReadAll(`SELECT to_json(COLUMNS(*)) FROM (${sql})`)).getRows()
    if (!/MAP|map|BLOB|BIGNUM|row\(/.test(sql))
      expect(rows).toEqual(engineJson.map((row) => row.map((json) => JSON.parse(String(json)))))
    expect(rows).toHaveLength(engineJson.length)
  })

  test('refuses JSON above the limit without writing the text', async () => {
    const ipc = await arrow(`SELECT list_transform(range(1000000), n -> {'${'k'.repeat(5_000)}': n}) AS x`)
    expect(ipc.length).toBeLessThan(10_000_000)
    const before = process.memoryUsage.rss()
    const answer = arrowToJson(ipc, { shape: 'objects', rows: 1, bytesMax: 64 * 1_048_576 })
    await expect(answer).rejects.toThrow(JsonTooLarge)
    await expect(answer).rejects.toThrow('larger than 64 MB of JSON (QUERY_ANSWER_LIMIT)')
    expect(process.memoryUsage.rss() - before).toBeLessThan(100 * 1_048_576)
  })

  test.each([
    ['numbers', 'SELECT range AS n FROM range(100000)'],
    ['escapes', `SELECT repeat(chr(1), 1000000) AS t`],
    ['keys of a map', `SELECT MAP {range(300000): 1} AS m`],
    ['a list of NULLs', `SELECT list_transform(range(400000), n -> NULL::INT) AS l`],
  ])('is limited while it is written: %s', async (_, sql) => {
    const ipc = await arrow(sql)
    const { text } = await textOf(ipc)
    const options = { shape: 'objects', rows: 100_000 } as const
    await expect(arrowToJson(ipc, { ...options, bytesMax: text.length - 1 })).rejects.toThrow(JsonTooLarge)
    expect((await arrowToJson(ipc, { ...options, bytesMax: text.length })).chunks.length).toBeGreaterThan(1)
  })

  test('refuses JSON above the limit before the engine sends the stream', async () => {
    const result = await connection.stream(`SELECT {'${'k'.repeat(1_000)}': range} AS x FROM range(1000000)`)
    await expect(arrowBytes(result, { jsonBytesMax: 10_000_000 })).rejects.toThrow(JsonTooLarge)
  })

  test('stops when its reader disconnects', async () => {
    const ipc = await arrow('SELECT range AS n FROM range(100000)')
    const signal = AbortSignal.abort(new Error('gone'))
    await expect(arrowToJson(ipc, { shape: 'objects', rows: 100_000, signal })).rejects.toThrow('gone')
  })

  test('refuses columns with too long names before it reads them', async () => {
    const columns = Array.from({ length: 30 }, (_, n) => `1 AS "${n}${'c'.repeat(80_000)}"`)
    const ipc = await arrow(`SELECT ${columns}`)
    await expect(arrowToJson(ipc, { shape: 'objects', rows: 1 })).rejects.toThrow(SchemaTooLarge)
    const inFirstFormat = ipc.slice(4)
    await expect(arrowToJson(inFirstFormat, { shape: 'objects', rows: 1 })).rejects.toThrow(SchemaTooLarge)
  })

  test('pauses between the steps of a result with many columns', async () => {
    const ipc = await arrow(`SELECT ${Array.from({ length: 2_000 }, (_, n) => `MAP {1: ${n}} AS c${n}`)}`)
    const { turns, answer } = await turnsOf(() => arrowToJson(ipc, { shape: 'objects', rows: 1 }))
    expect(answer.columns).toHaveLength(2_000)
    // Schema, columns, batch, cells, and the slices of the one row.
    expect(turns).toBeGreaterThan(6)
  })
})

/** A stream as an engine could write it. */
function ipcOf(columns: readonly Data[], length: number): Uint8Array {
  const schema = new Schema(columns.map(({ type }, index) => new Field(`c${index}`, type, true)))
  const data = makeData({ type: new Struct(schema.fields), length, nullCount: 0, children: [...columns] })
  const writer = new RecordBatchStreamWriter()
  writer.write(new RecordBatch(schema, data))
  return writer.finish().toUint8Array(true)
}
const offsetBuffer = (...all: number[]) => ({ [BufferType.OFFSET]: Int32Array.from(all) })
const bytesOf = (values: Uint8Array) => ({ [BufferType.DATA]: values })

describe('an inconsistent Arrow stream', () => {
  const ROWS = 8
  /** Null: the data is refused. */
  const written = (type: DataType, buffers: object) => {
    const data = new Data(type, 0, ROWS, 0, buffers)
    try {
      requireSound(data)
    } catch (error) {
      expect(error).toBeInstanceOf(RangeError)
      return null
    }
    const fields = [new Field('a', type, true)]
    const rows = makeData({ type: new Struct(fields), length: ROWS, nullCount: 0, children: [data] })
    const out = new JsonBytes()
    const cells = fieldsOf(fields, false)(rows, { out, bytesMax: Number.POSITIVE_INFINITY })
    expect([...valuesOf(cells, 0, ROWS, out)]).toHaveLength(1)
    const text = utf8.decode(out.drain())
    // A heavy value is written by other code, but with the same text.
    for (let row = 0; row < ROWS; row += 1) {
      if (row > 0) out.byte(','.charCodeAt(0))
      expect([...cells.pieces(row)].length).toBeLessThan(ROWS)
    }
    expect(utf8.decode(out.drain())).toBe(text)
    return text
  }
  const bytes = fc.uint8Array({ minLength: 0, maxLength: 16 * ROWS })

  test('refuses wrong text offsets, or writes no more than the bytes', () => {
    const offset = fc.oneof(
      fc.integer({ min: -3, max: 20 }),
      fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }),
    )
    const offsets = fc.oneof(
      fc.array(offset, { minLength: ROWS + 1, maxLength: ROWS + 1 }),
      fc
        .array(fc.nat({ max: 20 }), { minLength: ROWS + 1, maxLength: ROWS + 1 })
        .map((all) => all.sort((a, b) => a - b)),
      fc.array(offset, { maxLength: ROWS }),
    )
    const values = fc.oneof(
      bytes,
      fc.string({ unit: 'binary', maxLength: 20 }).map((text) => new TextEncoder().encode(text)),
      fc
        .string({ unit: fc.constantFrom('a', 'é', '🦆', '"', '\n'), minLength: 5, maxLength: 20 })
        .map((text) => new TextEncoder().encode(text)),
    )
    let read = 0
    fc.assert(
      fc.property(values, offsets, (values, offsets) => {
        const text = written(new Utf8(), {
          [BufferType.OFFSET]: Int32Array.from(offsets),
          [BufferType.DATA]: values,
        })
        if (text === null) return
        read += 1
        const rows: { a: string }[] = JSON.parse(`[${text}]`)
        expect(rows.map(({ a }) => a)).toEqual(
          Array.from({ length: ROWS }, (_, row) =>
            new TextDecoder('utf-8', { ignoreBOM: true }).decode(
              values.subarray(offsets[row], offsets[row + 1]),
            ),
          ),
        )
        expect(rows.reduce((sum, { a }) => sum + a.length, 0)).toBeLessThanOrEqual(values.length)
      }),
      { numRuns: 2_000 },
    )
    expect(read).toBeGreaterThan(0)
  })

  test('writes any bytes as JSON, and refuses too few bytes', () => {
    const types = [new Int32(), new Int64(), new Float64(), new DateDay(), new TimestampMicrosecond()]
    const type = fc.constantFrom<DataType>(...types, new Decimal(2, 14, 128), new Decimal(9, 15, 128))
    const enough = fc.uint8Array({ minLength: 16 * ROWS, maxLength: 16 * ROWS })
    fc.assert(
      fc.property(type, fc.oneof(bytes, enough), (type, bytes) => {
        const { ArrayType } = type
        const aligned = new ArrayType(bytes.slice(0, bytes.length - (bytes.length % 16)).buffer)
        const data = { [BufferType.DATA]: aligned }
        const text = written(type, data)
        const { stride } = new Data(type, 0, ROWS, 0, data)
        if (aligned.length < ROWS * stride) expect(text).toBeNull()
        else expect(JSON.parse(`[${text}]`)).toHaveLength(ROWS)
      }),
      { numRuns: 2_000 },
    )
  })

  // Every second row refers to all bytes.
  const all = 1 << 16
  const sharedOffsets = offsetBuffer(...Array.from({ length: 402 }, (_, index) => (index % 2) * all))
  const items = new Data(new Int32(), 0, all, 0, { [BufferType.DATA]: new Int32Array(all) })
  const item = new Field('item', new Int32(), true)
  const entry = new Struct<{ key: DataType; value: DataType }>([
    new Field('key', new Int32(), false),
    new Field('value', new Int32(), true),
  ])
  const entries = makeData({ type: entry, length: all, nullCount: 0, children: [items, items] })
  const text = new Data(new Utf8(), 0, 401, 0, { ...sharedOffsets, ...bytesOf(new Uint8Array(all).fill(65)) })
  const list = (child: Data, buffers: object) =>
    new Data(new List(new Field('item', child.type, true)), 0, 401, 0, buffers, [child])
  const inOrder = offsetBuffer(...Array.from({ length: 402 }, (_, index) => index))
  test.each<[string, Data]>([
    ['texts', text],
    ['blobs', new Data(new Binary(), 0, 401, 0, { ...sharedOffsets, ...bytesOf(new Uint8Array(all)) })],
    ['lists', new Data(new List(item), 0, 401, 0, sharedOffsets, [items])],
    ['maps', new Data(new Map_(new Field('entries', entry, false)), 0, 401, 0, sharedOffsets, [entries])],
    ['arrays', new Data(new FixedSizeList(all, item), 0, 401, 0, {}, [items])],
    ['texts in a list', list(text, inOrder)],
    [
      'texts in a struct',
      makeData({ type: new Struct([new Field('t', new Utf8())]), length: 401, children: [text] }),
    ],
    [
      'texts of a struct with more rows than texts',
      new Data(new Struct([new Field('t', new Utf8())]), 0, 401, 0, {}, [
        new Data(new Utf8(), 0, 0, 0, { ...sharedOffsets, ...bytesOf(new Uint8Array(all)) }),
      ]),
    ],
    [
      'items that are declared but absent',
      list(new Data(new Int32(), 0, 2 ** 31 - 1, 0, { [BufferType.DATA]: new Int32Array() }), sharedOffsets),
    ],
    ['NULLs that are declared but absent', list(new Data(new Null(), 0, 2 ** 31 - 1, 0), sharedOffsets)],
  ])('is refused when rows share bytes: %s', (_, data) => {
    expect(() => requireSound(data)).toThrow(RangeError)
  })

  test('refuses shared bytes in both JSON shapes', async () => {
    const ipc = ipcOf([text], 401)
    for (const shape of ['objects', 'arrays'] as const)
      await expect(textOf(ipc, { shape })).rejects.toThrow('fewer values than it declares')
  })

  test('refuses lists beyond their items and lists with decreasing offsets', async () => {
    const ipc = await arrow('SELECT [range, range] AS l, MAP {range: range} AS m FROM range(3)')
    expect((await arraysOf(ipc, 3)).rows[2]).toEqual([[2, 2], { '2': 2 }])
    const [lists, maps] = [
      [0, 2, 4, 6],
      [0, 1, 2, 3],
    ]
    for (const [before, ...after] of [
      [lists, 0, 2, 4, 2_147_483_647],
      [maps, 0, 1, 2, 2_147_483_647],
      [lists, 0, 6, 0, 6],
      [maps, -1, 1, 2, 3],
    ] as const)
      await expect(textOf(withPlaces(ipc, before, after))).rejects.toThrow('fewer values than it declares')
  })

  /** The stream with other offsets of list items. */
  function withPlaces(ipc: Uint8Array, before: readonly number[], after: readonly number[]): Uint8Array {
    const changed = Buffer.from(ipc)
    const at = changed.indexOf(Buffer.from(Int32Array.from(before).buffer))
    expect(at).toBeGreaterThan(0)
    changed.set(new Uint8Array(Int32Array.from(after).buffer), at)
    return changed
  }

  test('refuses columns that share their bytes', async () => {
    const texts = Array.from(
      { length: 9 },
      (_, column) =>
        new Data(new Utf8(), 0, 1, 0, {
          ...offsetBuffer(0, 4_096),
          ...bytesOf(new Uint8Array(4_096).fill(65 + column)),
        }),
    )
    const ipc = ipcOf(texts, 1)
    expect((await textOf(ipc)).text).toHaveLength(9 * 4_096 + 9 * 8 + 1)
    await expect(textOf(sharing(ipc))).rejects.toThrow('share their bytes')
  })

  /** The stream after each buffer of its batch is extended to the length of all buffers. */
  function sharing(ipc: Uint8Array): Uint8Array {
    const changed = Buffer.from(ipc)
    // A buffer is an offset and a length, 64 bits each. This selects the buffers of the texts.
    for (let at = 0; at + 16 <= changed.length; at += 8)
      if (changed.readBigInt64LE(at + 8) === 4_096n && changed.readBigInt64LE(at) % 64n === 0n)
        changed.writeBigInt64LE(9n * 4_096n, at + 8)
    return changed
  }

  test('refuses rows without columns', async () => {
    await expect(textOf(ipcOf([], 3))).rejects.toThrow('rows without columns')
    expect((await textOf(ipcOf([], 0))).text).toBe('')
  })

  test('refuses more rows than the limit', async () => {
    const ipc = await arrow('SELECT range FROM range(3000)')
    await expect(textOf(ipc, { rows: 2_999 })).rejects.toThrow('more than 2999 rows')
  })
})

describe('JSON objects per row', () => {
  test('keeps all rows when column names repeat with other types', async () => {
    const ipc = await arrow(`SELECT 'x' AS f, 2 AS f, 1.5 AS f, 3 AS f_1 FROM range(3000)`)
    const { columns, rows } = await objectsOf(ipc)
    expect(columns.map(({ name }) => name)).toEqual(['f', 'f_2', 'f_3', 'f_1'])
    expect(rows).toHaveLength(3_000)
    expect(rows[0]).toEqual({ f: 'x', f_2: 2, f_3: 1.5, f_1: 3 })
  })

  test('adds a number to repeated column names', async () => {
    const { columns, text } = await textOf(
      await arrow('SELECT 1 AS a, 2 AS a, 3 AS a_1, 4 AS a, 5 AS "__proto__"'),
    )
    expect(columns.map(({ name }) => name)).toEqual(['a', 'a_2', 'a_1', 'a_3', '__proto__'])
    expect(text).toBe('{"a":1,"a_2":2,"a_1":3,"a_3":4,"__proto__":5}')
  })

  test('makes names unique and keeps the first of each name', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom('a', 'a_1', 'a_2', 'b', ''), { maxLength: 12 }), (names) => {
        const unique = uniqueNames(names)
        expect(new Set(unique).size).toBe(names.length)
        for (const [index, name] of names.entries())
          if (names.indexOf(name) === index) expect(unique[index]).toBe(name)
      }),
    )
  })
})

describe('any value', () => {
  test('writes integers, texts, blobs and times like the engine does', async () => {
    const days = fc.integer({ min: -2_147_483_646, max: 2_147_483_646 })
    const micros = fc.bigInt({ min: -(2n ** 61n), max: 2n ** 61n })
    const text = fc.string({ unit: 'grapheme' }).filter((each) => !each.includes('\0'))
    await fc.assert(
      fc.asyncProperty(
        fc.bigInt({ min: -(2n ** 127n), max: 2n ** 127n - 1n }),
        days,
        micros,
        text,
        async (n, day, at, word) => {
          const quoted = `'${word.replaceAll("'", "''")}'`
          const [row] = (
            await table(
              `SELECT '${n}'::HUGEINT, DATE '1970-01-01' + ${day}, make_timestamp(${at}::BIGINT), ${quoted}, encode(${quoted})`,
            )
          ).rows
          const [said] = await texts(
            `SELECT year(d), month(d), day(d), year(t), epoch_us(t)::VARCHAR FROM (SELECT DATE '1970-01-01' + ${day} AS d, make_timestamp(${at}::BIGINT) AS t)`,
          )
          expect(row?.[0]).toEqual(n >= -(2n ** 53n) + 1n && n < 2n ** 53n ? Number(n) : String(n))
          const [, year, month, dayOfMonth] = /^([-+]?\d+)-(\d\d)-(\d\d)$/.exec(String(row?.[1])) ?? []
          expect([Number(year), Number(month), Number(dayOfMonth)].map(String)).toEqual(
            (said ?? []).slice(0, 3).map(String),
          )
          expect(Number.parseInt(String(row?.[2]), 10)).toBe(Number(said?.[3]))
          expect(row?.[3]).toBe(word)
          expect(Buffer.from(String(row?.[4]), 'base64').toString()).toBe(word)
        },
      ),
      { numRuns: 60 },
    )
  })

  test('writes texts exactly, whatever other values surround them', async () => {
    const parts = 'a é 🦆 " \\ / \n \b \x01 \x1f \x7f \u2028 \ufffd \ufeff \x80'.split(' ')
    const text = fc.oneof(
      fc.string({ unit: fc.constantFrom(...parts), maxLength: 80 }),
      fc.string({ unit: fc.constantFrom('a', 'é', '🦆'), maxLength: 80 }),
      fc.string({ unit: 'binary' }).filter((each) => !each.includes('\0')),
    )
    await fc.assert(
      fc.asyncProperty(fc.array(fc.option(text), { minLength: 1, maxLength: 6 }), async (words) => {
        const values = words.map((word) => (word === null ? '(NULL)' : `('${word.replaceAll("'", "''")}')`))
        const { rows } = await table(
          `SELECT t::VARCHAR, [t, 'x']::VARCHAR[] FROM (VALUES ${values.join()}) v(t)`,
        )
        expect(rows).toEqual(words.map((word) => [word, [word, 'x']]))
      }),
      { numRuns: 200 },
    )
    const codes = Array.from({ length: 127 }, (_, code) => String.fromCharCode(code + 1))
    const sql = codes.map((code) => `('${code.replaceAll("'", "''")}')`).join()
    expect((await table(`SELECT t FROM (VALUES ${sql}) v(t)`)).rows).toEqual(codes.map((code) => [code]))
  })

  test('splits long texts only between characters', async () => {
    for (const before of ['', 'a', 'aa'])
      for (const unit of ['🦆', 'é', 'a', '"', '\x01']) {
        const { text } = await textOf(await arrow(`SELECT '${before}' || repeat('${unit}', 200000) AS x`))
        expect(text === `{"x":${JSON.stringify(before + unit.repeat(200_000))}}`).toBe(true)
      }
  })

  test('writes a decimal of any width exactly', async () => {
    const decimal = fc.integer({ min: 1, max: 38 }).chain((width) =>
      fc.record({
        width: fc.constant(width),
        scale: fc.integer({ min: 0, max: width }),
        unscaled: fc.bigInt({ min: -(10n ** BigInt(width)) + 1n, max: 10n ** BigInt(width) - 1n }),
      }),
    )
    await fc.assert(
      fc.asyncProperty(decimal, async ({ width, scale, unscaled }) => {
        const digits = String(unscaled < 0n ? -unscaled : unscaled).padStart(scale + 1, '0')
        const sign = unscaled < 0n ? '-' : ''
        const text = `${sign}${digits.slice(0, digits.length - scale)}.${digits.slice(digits.length - scale)}`
        const [said] = await texts(`SELECT '${text}'::DECIMAL(${width},${scale})::VARCHAR`)
        const json = await value(`'${text}'::DECIMAL(${width},${scale})`)
        const plain = String(said?.[0]).replace(/^(-?)\./, '$10.')
        expect(json).toEqual(width <= 15 ? Number(plain) : plain)
      }),
      { numRuns: 60 },
    )
  })
})
