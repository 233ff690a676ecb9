import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { constants, gzipSync, zstdCompressSync } from 'node:zlib'
import { lookAtAll as lookIn } from './look-at-all.ts'
import { lines, testZone } from './test-zone.ts'

const { directory, zone, rows, refused, lookAtAll, engine } = testZone()

const last = "select * from read_csv_auto('ZONE/*') order by a desc limit 1"

/** Values early and late in a file, with the column's type and the late value as read. */
const LATE: readonly [string, string, string, string, string | number][] = [
  ['a fraction after whole numbers', '1', '1.5', 'DOUBLE', 1.5],
  ['leading zeros after numbers', '12345', '00123', 'VARCHAR', '00123'],
  ['a phone number after numbers', '12345', '+4915112345678', 'VARCHAR', '+4915112345678'],
  ['a text after numbers', '1', 'n/a', 'VARCHAR', 'n/a'],
  ['a boolean after numbers', '1', 'true', 'VARCHAR', 'true'],
  ['a number after booleans', 'true', '1', 'VARCHAR', '1'],
  ['a time after dates', '2026-01-01', '2026-01-02 10:00:00', 'TIMESTAMP', '2026-01-02 10:00:00'],
  [
    'a zone after times',
    '2026-01-01 10:00:00',
    '2026-01-02 10:00:00+02:00',
    'VARCHAR',
    '2026-01-02 10:00:00+02:00',
  ],
  [
    'nanoseconds after times',
    '2026-01-01 10:00:00',
    '2026-01-02 10:00:00.123456789',
    'VARCHAR',
    '2026-01-02 10:00:00.123456789',
  ],
  ['a whole number beyond 64 bits', '1', '18446744073709551617', 'HUGEINT', '18446744073709551617'],
  ['a whole number beyond 38 digits', '1', '9'.repeat(40), 'VARCHAR', '9'.repeat(40)],
  ['an amount beyond 15 digits', '1.5', '12345678901234567.89', 'DECIMAL(38,2)', '12345678901234567.89'],
  ['a float with 17 digits', '1.5', '0.30000000000000004', 'DOUBLE', 0.30000000000000004],
  ['a number after nothing', '', '5', 'BIGINT', '5'],
  ['a hexadecimal number after numbers', '1', '0x1F', 'VARCHAR', '0x1F'],
]

test('CSV keeps late values of each kind', async () => {
  const names = LATE.map((_, at) => `c${at}`)
  const row = (values: readonly string[]) => `${values.join(',')}\n`
  const early = row(['1', ...LATE.map(([, value]) => value)])
  zone({
    'f.csv': row(['a', ...names]) + early.repeat(21_000) + row(['2', ...LATE.map(([, , value]) => value)]),
  })
  const found = await rows("select * exclude (a) from read_csv_auto('ZONE/*') where a = 2")
  const kept = LATE.map(([what], at) => [what, found.types[at], found.rows[0]?.[at]])
  expect(kept).toEqual(LATE.map(([what, , , type, value]) => [what, type, value]))
  expect(found.warnings.length).toBe(found.types.filter((type) => type === 'VARCHAR').length)
})

test('a warning names file, column and value', async () => {
  zone({ 'f.csv': `a,v\n${lines(21_000, (at) => `${at},1`)}99999,n/a\n` })
  expect((await rows(last)).warnings).toEqual([
    'landing/z/f.csv, column "v": "n/a" is not of type BIGINT: the whole column is read as text',
  ])
})

test('CSV files of a zone have one type per column, found by name', async () => {
  zone({ 'a.csv': 'a,v\n1,1\n', 'b.csv': 'v,a,w\n1.5,2,x\n', 'c.csv': 'a,v,w\n' })
  const found = await rows("select a, v, w from read_csv('ZONE/*.csv') order by a")
  expect(found.types).toEqual(['BIGINT', 'DOUBLE', 'VARCHAR'])
  expect(found.rows).toEqual([
    ['1', 1, null],
    ['2', 1.5, 'x'],
  ])
})

test('arguments of the author win', async () => {
  zone({ 'f.csv': 'a,v\n1,2.0\n3,00004\n' })
  const found = await rows("select * from read_csv('ZONE/*', types={'v': 'DOUBLE'}) order by a")
  expect(found.types).toEqual(['BIGINT', 'DOUBLE'])
  const text = `select * from read_csv('ZONE/*', columns={'a': 'INTEGER', 'v': 'VARCHAR'})`
  expect((await rows(text)).types).toEqual(['INTEGER', 'VARCHAR'])
  expect((await rows("from read_csv('ZONE/*', all_varchar := true)")).types).toEqual(['VARCHAR', 'VARCHAR'])
})

test.each([
  ['a call in a CTE', "with c as (from read_csv('ZONE/*')) select v from c"],
  ['a call in a subquery', "select (select max(v) from read_csv(['ZONE/f.csv'])) as v limit 1"],
  ['a quoted path', "select f.v from 'ZONE/f.csv'"],
  ['a quoted path with an alias', 'select t.v from "ZONE/f.csv" t'],
  ['a computed path', "select v from read_csv('ZONE' || '/f.csv')"],
  ['two calls', "select v from read_csv('ZONE/*') union all by name select v from read_csv('ZONE/*')"],
])('looks at all values in %s', async (_, text) => {
  zone({ 'f.csv': `a,v\n${lines(21_000, (at) => `${at},1`)}99999,1.5\n` })
  expect((await rows(text)).types).toEqual(['DOUBLE'])
})

test('the value of a parameter is a path', async () => {
  const path = zone({ 'f.csv': `a,v\n${lines(21_000, (at) => `${at},1`)}99999,1.5\n` })
  const parameters = new Map([['1', `'${path}/*'`]])
  const { sql } = await lookAtAll('select v from read_csv(?) where v > 1', parameters)
  expect(sql).toContain("'v': 'DOUBLE'")
})

test('the lines of a text stay the same', async () => {
  zone({ 'f.csv': 'a,v\n1,2\n' })
  const { sql } = await rows("select *\nfrom read_csv(\n'ZONE/*' -- all\n)\nwhere a = 1")
  expect(sql.split('\n').length).toBe(5)
})

test('many small CSV files are read in one pass', async () => {
  const files = Array.from({ length: 300 }, (_, at) => [
    `f${at}.csv`,
    `a,v\n${at},${at === 7 ? '"x, y"' : 'z'}\n`,
  ])
  zone(Object.fromEntries(files))
  const found = await rows("select count(*) as n, max(a) as a from read_csv('ZONE/*')")
  expect(found.rows).toEqual([['300', '299']])
  expect(found.sql).toContain("columns={'a': 'BIGINT', 'v': 'VARCHAR'}")
})

const json = "select * from read_json_auto('ZONE/*')"
test.each([
  ['a fraction', { v: 1 }, '{"v":1.5}', 'DOUBLE', 1.5],
  [
    'a whole number beyond 64 bits',
    { v: 1 },
    '{"v":18446744073709551617}',
    'HUGEINT',
    '18446744073709551617',
  ],
  [
    'a large number beside fractions',
    { v: 1.5 },
    '{"v":9007199254740993}',
    'DECIMAL(38,1)',
    '9007199254740993.0',
  ],
  ['a text after numbers', { v: 1 }, '{"v":"00123"}', 'VARCHAR', '00123'],
  ['a nested fraction', { v: { a: [1] } }, '{"v":{"a":[1.5]}}', 'STRUCT("a" DOUBLE[])', { a: [1.5] }],
])('JSON keeps %s', async (_, early, late, type, value) => {
  zone({ 'f.json': `${lines(21_000, () => JSON.stringify(early))}${late}\n` })
  const found = await rows(`${json} offset 21000`)
  expect(found.types[0]?.replaceAll('"', '')).toBe(type.replaceAll('"', ''))
  expect(found.rows).toEqual([[value]])
})

test('JSON keeps keys that appear late, and large objects as they are', async () => {
  const keys = Object.fromEntries(Array.from({ length: 200 }, (_, at) => [`k${at}`, at]))
  const object = JSON.stringify({ o: { ...keys, k6: 1.5 } }).replace('"k5":5', '"k5":9007199254740993')
  zone({ 'a.json': object, 'b.json': `${lines(25_000, () => '{"a":1}')}{"refund":7}\n` })
  const found = await rows(`select max(o.k5) as k5, max(o.k6) as k6, max(refund) as refund from (${json})`)
  expect(found.rows).toEqual([['9007199254740993', 1.5, '7']])
})

test.each([
  ['a boolean between numbers', '{"v":1}', '{"v":true}', ['column "v"', 'true']],
  ['a nested boolean between numbers', '{"v":[1]}', '{"v":[1,true]}', ['column "v[]"', 'true']],
  [
    'an amount with too many digits',
    '{"v":1.5}',
    '{"v":12345678901234567.89}',
    ['"v"', '12345678901234567.89'],
  ],
])('JSON with %s is refused', async (_, early, late, parts) => {
  zone({ 'f.json': `${lines(21_000, () => early)}${late}\n` })
  const message = await refused(json)
  for (const part of ['landing/z/f.json', ...parts]) expect(message).toContain(part)
})

test.each([
  ['read_json', '['.repeat(1_000_000)],
  ['read_json', `{"a":${'['.repeat(10_000)}1${']'.repeat(10_000)}}`],
  ['read_json_objects', `${'{"a":'.repeat(10_000)}1${'}'.repeat(10_000)}`],
  ["read_json('ZONE/*', columns={'a': 'JSON'})", `{"a":${'[{"b":'.repeat(5_000)}1${'}]'.repeat(5_000)}}`],
])('%s refuses deeply nested values before the engine reads them', async (reader, content) => {
  zone({ 'deep.json': content })
  const call = reader.includes('(') ? reader : `${reader}('ZONE/*')`
  expect(await refused(`from ${call}`)).toMatch(
    /landing.z.deep.json (has JSON of more than 200 levels|is cut)/,
  )
})

test('a file of thousands of columns is looked at in seconds', async () => {
  const count = 2_000
  const row = (values: readonly string[]) => `${values.join(',')}\n`
  const of = (value: string) => Array.from({ length: count }, () => value)
  zone({ 'wide.csv': row(of('x').map((x, at) => x + at)) + row(of('1')) + row(of('007')) })
  const started = process.cpuUsage()
  const { sql } = await lookAtAll(`from read_csv('${join(directory, 'landing', 'z')}/*')`)
  const { user, system } = process.cpuUsage(started)
  expect(sql).toContain("'x1999': 'VARCHAR'")
  expect((user + system) / 1_000_000).toBeLessThan(20)
}, 60_000)

test.each([
  ['DOUBLE after INTEGER', '1::integer', '1.5::double', 'DOUBLE', 1.5],
  [
    'TIMESTAMP after DATE',
    "date '2026-01-01'",
    "timestamp '2026-01-02 10:00'",
    'TIMESTAMP',
    '2026-01-02 10:00:00',
  ],
])('Parquet keeps %s', async (_, first, second, type, value) => {
  const path = zone({})
  await engine().run(`copy (select 1 as n, ${first} as v) to '${path}/a.parquet'`)
  await engine().run(`copy (select 2 as n, ${second} as v, 'x' as w) to '${path}/b.parquet'`)
  const found = await rows("select v, w from read_parquet('ZONE/*') where n = 2")
  expect(found.types).toEqual([type, 'VARCHAR'])
  expect(found.rows).toEqual([[value, 'x']])
})

test.each([
  ['a field of a struct', "{'x': 1}", "{'x': 2.5::double, 'y': 3}", { x: 2.5, y: 3 }],
  ['a value of a list', '[1]', '[2.5::double]', [2.5]],
  ['a field within a list', "[{'x': 1}]", "[{'x': 2, 'y': 'b'}]", [{ x: 2, y: 'b' }]],
])('Parquet keeps %s that only a later file has', async (_, first, second, value) => {
  const path = zone({})
  await engine().run(`copy (select 1 as n, ${first} as v) to '${path}/first.parquet'`)
  await engine().run(`copy (select 2 as n, ${second} as v) to '${path}/second.parquet'`)
  expect((await rows("select v from read_parquet('ZONE/*') where n = 2")).rows).toEqual([[value]])
})

test.each([
  ['whole numbers', '9007199254740993', '1.5::double', '"v"', '9007199254740993'],
  ['decimals', '12345678901234567.89', '1.5::double', '"v"', '12345678901234567.89'],
  ['whole numbers beside FLOAT', '16777217', '1.5::float', '"v"', '16777217'],
  ['numbers in a list', '[9007199254740993]', '[1.5::double]', '"v[]"', '9007199254740993'],
  [
    'numbers in a struct',
    "[{'x': {'y': 9007199254740993}}]",
    "[{'x': {'y': 1.5::double}}]",
    '"v[].x.y"',
    '9007199254740993',
  ],
  ['numbers in a map', "map {'k': 9007199254740993}", "map {'k': 1.5::double}", '"v.*"', '9007199254740993'],
  ['booleans', 'true', '5', '"v"', 'BOOLEAN'],
  ['booleans in a list', '[true]', '[5]', '"v[]"', 'BOOLEAN'],
])(
  'Parquet with %s that the common type would change is refused',
  async (_, first, second, column, value) => {
    const path = zone({})
    await engine().run(`copy (select ${first} as v from range(3)) to '${path}/exact.parquet'`)
    await engine().run(`copy (select ${second} as v) to '${path}/float.parquet'`)
    const message = await refused("select v from read_parquet('ZONE/*')")
    for (const part of ['landing/z/exact.parquet', `column ${column}`, value]) expect(message).toContain(part)
  },
)

test.each([
  ['month first', '03/13/2026', '03/04/2026', 'DATE', '2026-03-04'],
  ['day first', '13.03.2026', '03.04.2026', 'DATE', '2026-04-03'],
  ['times', '13/03/2026 10:00:00', '03/04/2026 11:00:00', 'TIMESTAMP', '2026-04-03 11:00:00'],
  ['equal day and month', '03/03/2026', '04/04/2026', 'DATE', '2026-04-04'],
])('dates have one meaning: %s', async (_, first, second, type, value) => {
  zone({ 'a.csv': `a,d\n1,${first}\n`, 'b.csv': `a,d\n2,${second}\n` })
  const found = await rows("select d from read_csv('ZONE/*') where a = 2")
  expect(found.types).toEqual([type])
  expect(found.rows).toEqual([[value]])
})

test.each([
  ['CSV', { 'a.csv': 'a,d\n1,03/04/2026\n' }, "from read_csv('ZONE/*')", 'dateformat'],
  [
    'CSV with times',
    { 'a.csv': 'a,d\n1,03/04/2026 10:00:00\n' },
    "from read_csv('ZONE/*')",
    'timestampformat',
  ],
  ['CSV with years of two digits', { 'a.csv': 'a,d\n1,03/04/26\n' }, "from read_csv('ZONE/*')", 'dateformat'],
  [
    'CSV with types of the author',
    { 'a.csv': 'a,d\n1,03.04.2026\n' },
    "from read_csv('ZONE/*', types={'d': 'DATE'})",
    'dateformat',
  ],
  [
    'CSV with a list of types',
    { 'a.csv': 'a,d\n1,03/04/2026\n' },
    "from read_csv('ZONE/*', types=['INTEGER', 'DATE'])",
    'dateformat',
  ],
  [
    'CSV with columns of the author',
    { 'a.csv': 'a,d\n1,03/04/2026 10:00:00\n' },
    "from read_csv('ZONE/*', columns={'a': 'INTEGER', 'd': 'TIMESTAMP'})",
    'timestampformat',
  ],
  [
    'files with different orders',
    { 'a.csv': 'a,d\n1,03/13/2026\n', 'b.csv': 'a,d\n1,13/03/2026\n' },
    "from read_csv('ZONE/*')",
    'dateformat',
  ],
  ['JSON', { 'a.json': '{"d":"03-04-2026"}\n' }, "from read_json('ZONE/*')", 'dateformat'],
])('dates with two meanings are refused: %s', async (_, files, text, option) => {
  zone(files)
  const message = await refused(text)
  for (const part of ['landing/z/', 'column "d"', '26', option]) expect(message).toContain(part)
})

test.each([
  ['types', "types={'d': 'DATE'}"],
  ['columns', "columns={'a': 'INTEGER', 'd': 'DATE'}"],
  ['candidates', "auto_type_candidates=['INTEGER', 'DATE']"],
])('dates have one meaning in all files with %s of the author', async (_, argument) => {
  zone({ 'a.csv': 'a,d\n1,03/13/2026\n', 'b.csv': 'a,d\n2,03/04/2026\n' })
  const found = await rows(`select d from read_csv('ZONE/*', ${argument}) where a = 2`)
  expect(found.rows).toEqual([['2026-03-04']])
})

test("a date has the meaning of the author's dateformat", async () => {
  zone({ 'a.csv': 'a,d\n1,03/04/2026\n' })
  const found = await rows("select d from read_csv('ZONE/*', dateformat='%m/%d/%Y')")
  expect(found.rows).toEqual([['2026-03-04']])
})

const content = `a,v\n${lines(50_000, (at) => `${at},text ${at}`)}`
const gz = gzipSync(content)
const zst = zstdCompressSync(content)
const checked = zstdCompressSync(content, { params: { [constants.ZSTD_c_checksumFlag]: 1 } })
const wrongZst = Buffer.from(checked)
wrongZst.writeUInt8((checked.at(-1) ?? 0) ^ 1, checked.length - 1)
const wrong = Buffer.from(gz)
wrong.writeUInt32LE(1, wrong.length - 8)

test.each([
  ['cut.csv.gz', gz.subarray(0, gz.length / 2)],
  ['short.csv.gz', gz.subarray(0, gz.length - 4)],
  ['crc.csv.gz', wrong],
  ['trailing.csv.gz', Buffer.concat([gz, Buffer.from('trailing')])],
  ['second.csv.gz', Buffer.concat([gz, gz.subarray(0, gz.length / 2)])],
  ['cut.csv.zst', zst.subarray(0, zst.length / 2)],
  ['short.csv.zst', zst.subarray(0, zst.length - 1)],
  ['sum.csv.zst', wrongZst],
  ['second.csv.zst', Buffer.concat([zst, zst.subarray(0, zst.length / 2)])],
  ['plain.csv.gz', Buffer.from(content)],
  ['gzip.csv', gz],
  ['utf16.csv', Buffer.from(`\ufeff${content}`, 'utf16le')],
  ['cut.json.gz', gzipSync('{"a":1}\n{"a":2}\n').subarray(0, 20)],
])('the damaged file %s is refused by its name', async (name, bytes) => {
  zone({ [name]: bytes })
  const reader = name.includes('json') ? 'read_json' : 'read_csv'
  const message = await refused(`select count(*) from ${reader}('ZONE/*')`)
  expect(message).toContain(`landing/z/${name}`)
})

const parquetBytes = async () => {
  const path = join(directory, 'whole.parquet')
  await engine().run(`copy (select range as a, 'text ' || range as b from range(50000)) to '${path}'`)
  return readFileSync(path)
}
const jsonLines = lines(30_000, (at) => `{"a":${at},"b":"text ${at}"}`)
const jsonArray = `[${Array.from({ length: 3_000 }, (_, at) => `{"a":${at}}`).join(',\n')}]`
const quoted = `a,b,c\n${lines(30_000, (at) => `${at},"text, ${at}",9`)}`

test.each<[string, string | (() => Promise<Buffer>)]>([
  ['half.parquet', async () => (await parquetBytes()).subarray(0, 50_000)],
  ['end.parquet', async () => (await parquetBytes()).subarray(0, -1)],
  ['line.json', `${jsonLines}{"a":1,"b":`],
  ['number.json', `${jsonLines}{"a":1`],
  ['brace.json', jsonLines.slice(0, -2)],
  ['value.json', '{"a":'],
  ['array.json', jsonArray.slice(0, -1)],
  ['comma.json', `${jsonArray.slice(0, -1)},`],
  ['blank.json', `\ufeff ${jsonArray.slice(0, -1)},\n \n`],
  ['quote.csv', `${quoted}1,"open`],
  ['lines.csv', `${quoted}1,"open, text\n2,"x",9\n`],
  ['small.csv', 'a,b\n1,"x"\n2,"open'],
  ['middle.csv', `a,b\n1,x\n2,"open\n${lines(100, (at) => `${at},y`)}`],
  ['only.csv', 'name\nx\n"open\n'],
  ['columns.csv', `${quoted}1,text`],
])('the cut file %s is refused by its name', async (name, content) => {
  zone({ [name]: typeof content === 'string' ? content : await content() })
  const reader = name.includes('json') ? 'read_json' : name.includes('csv') ? 'read_csv' : 'read_parquet'
  expect(await refused(`select count(*) from ${reader}('ZONE/*')`)).toContain(`landing/z/${name}`)
})

test.each([
  ['a.csv', 'a,b\n1,"x"\n2,""\n', '2'],
  ['b.csv', 'a,b\n1,"x,"\n2,5" pipe\n', '2'],
  ['c.json', ' [{"a":1},\n{"a":2}]\n\n', '2'],
  ['d.json', '[1]\n[2]\n', '2'],
])('the complete file %s is not refused', async (name, content, count) => {
  zone({ [name]: content })
  const reader = name.includes('json') ? 'read_json' : 'read_csv'
  expect((await rows(`select count(*) from ${reader}('ZONE/*')`)).rows).toEqual([[count]])
})

test('a new table refuses a file that is read as one column', async () => {
  const path = zone({ 'short.csv': 'a,b,c\n1,x,2\n2,y' })
  const text = `select * from read_csv('${path}/*')`
  const reason = 'landing/z/short.csv is read as one column "a,b,c"'
  expect((await lookAtAll(text)).notes[0]?.text).toStartWith(reason)
  await expect(lookIn(engine(), text, { isNewTable: true, known: new Map() })).rejects.toThrow(reason)
  const own = `select * from read_csv('${path}/*', delim=';')`
  expect((await lookIn(engine(), own, { isNewTable: true, known: new Map() })).sql).toContain('delim')
})

test('complete compressed files are read completely', async () => {
  zone({ 'one.csv.gz': gz, 'two.csv.zst': checked })
  expect((await rows("select count(*) from read_csv('ZONE/*')")).rows).toEqual([['100000']])
})

test.each([
  ['two members of gzip', 'f.csv.gz', Buffer.concat([gz, gzipSync('1,x\n')])],
  ['two frames of zstd', 'f.csv.zst', Buffer.concat([zst, zstdCompressSync('1,x\n')])],
])('a file of %s is read completely', async (_, name, bytes) => {
  zone({ [name]: bytes })
  expect((await rows("select count(*) from read_csv('ZONE/*')")).rows).toEqual([['50001']])
})

/** Files of one call, one of which is read as another table. */
const OTHER_TABLES: readonly [string, string, string][] = [
  ['a broken quote', 'id,name,age\n1,"ann" b,30\n2,bob\n3,c,4,5\n', 'column0'],
  ['a missing value', 'id,name,age\n1,x,2\n2,y', 'id,name,age'],
  ['no header', '3,carl,41\n4,dora,28\n', 'column0'],
  ['no header and only texts', 'x,carl,y\nz,dora,y\n', 'carl'],
]
test.each(OTHER_TABLES)('CSV refuses a file with %s beside a good file', async (_, content, name) => {
  for (const names of [
    ['a.csv', 'b.csv'],
    ['b.csv', 'a.csv'],
  ] as const) {
    zone({ [names[0]]: 'id,name,age\n1,ann,30\n2,bob,40\n', [names[1]]: content })
    const message = await refused("select * from read_csv_auto('ZONE/*.csv')")
    for (const text of [...names, 'has no column of', name]) expect(message).toContain(text)
  }
})

test('a warning tells of lines above the header, and of comments', async () => {
  zone({ 'a.csv': 'Report of May\nid,name\n1,ann\n2,bob\n' })
  const { warnings } = await rows("from read_csv('ZONE/a.csv')")
  expect(warnings.join()).toContain('a.csv: the first 1 lines are left out: write skip=1')
  zone({ 'a.csv': '# made by hand\nid,name\n1,ann\n# old\n2,bob\n' })
  const commented = (await rows("from read_csv('ZONE/a.csv')")).warnings
  expect(commented.join()).toMatch(/a\.csv: (lines with "#"|the first 1 lines) are left out/)
  zone({ 'a.csv': 'id,name\n1,ann\n#2,bob\n' })
  expect((await rows("from read_csv('ZONE/a.csv', comment='')")).rows).toHaveLength(2)
})

test('CSV files may have different columns as long as they share one', async () => {
  zone({
    'a.csv': 'id,x\n1,2\n',
    'b.csv': 'ID,y\n3,4\n',
    'c.csv': 'y,z\n5,6\n',
    'd.csv': '',
    'e.csv': 'z,id\n',
  })
  expect((await rows("select * from read_csv_auto('ZONE/*.csv')")).rows).toHaveLength(3)
})

/** A type of the author, and a value that the engine rounds or cuts to it. */
const LOSSES: readonly [string, string][] = [
  ['INTEGER', '1.5'],
  ['DECIMAL(9,2)', '1.255'],
  ['DOUBLE', '9007199254740993'],
  ['DOUBLE', '1e400'],
  ['FLOAT', '0.123456789'],
  ['TIME', '10:00:00.123456789'],
  ['DATE', '2026-01-02 10:00:00'],
  ['TIMESTAMP', '2026-01-02 10:00:00+02'],
]
test.each(LOSSES)('a warning names a value that the type %s changes: %s', async (type, value) => {
  const json = /[-:]/.test(value) ? `"${value}"` : value
  zone({ 'a.csv': `id,a\n1,${value}\n`, 'a.json': `[{"id": 1, "a": ${json}, "s": {"b": [${json}]}}]` })
  const rounded = `"${value}" is rounded or cut by the type ${type}`
  const columnsOfCsv = `columns={'id': 'INT', 'a': '${type}'}`
  for (const given of [
    `types={'a': '${type}'}`,
    columnsOfCsv,
    `auto_detect=false, header=true, ${columnsOfCsv}`,
  ])
    expect((await rows(`select a from read_csv('ZONE/a.csv', ${given})`)).warnings).toEqual([
      expect.stringContaining(`a.csv, column "a": ${rounded}`),
    ])
  const columns = `{'id': 'INT', 'a': '${type}', 's': 'STRUCT(b ${type}[])'}`
  for (const given of [`columns=${columns}`, `auto_detect=false, columns=${columns}`])
    expect((await rows(`from read_json('ZONE/a.json', ${given})`)).warnings).toEqual([
      expect.stringContaining(`a.json, column "a": ${rounded}`),
      expect.stringContaining(`a.json, column "s.b[]": ${rounded}`),
    ])
})

test('a warning names a boolean of JSON that becomes a number', async () => {
  zone({ 'a.json': '{"a": true}' })
  const { warnings } = await rows("from read_json('ZONE/a.json', columns={'a': 'INTEGER'})")
  expect(warnings.join()).toContain('"true" is rounded or cut by the type INTEGER')
})

test('values that fit the types of the author cause no warning', async () => {
  const kept = { INTEGER: '2.0', 'DECIMAL(9,2)': '1.250', DOUBLE: '0.1', DATE: '2026-01-02', BIGINT: '1e5' }
  const names = Object.keys(kept).map((_, at) => `c${at}`)
  const types = `{${Object.keys(kept).map((type, at) => `'c${at}': '${type}'`)}}`
  const json = `{${Object.values(kept).map((value, at) => `"c${at}": ${value.includes('-') ? `"${value}"` : value}`)}}`
  zone({ 'a.csv': `${names}\n${Object.values(kept)}\n`, 'a.json': json })
  expect((await rows(`from read_csv('ZONE/a.csv', columns=${types})`)).warnings).toEqual([])
  expect((await rows(`from read_json('ZONE/a.json', columns=${types})`)).warnings).toEqual([])
})

test('JSON refuses dates with two meanings in a column that the author typed', async () => {
  for (const type of ['DATE', 'TIMESTAMP']) {
    zone({ 'a.json': '[{"d": "03-04-26", "l": ["03-04-26"]}, {"d": "04-05-26", "l": []}]' })
    expect(await refused(`from read_json('ZONE/a.json', columns={'d': '${type}'})`)).toContain('two meanings')
    expect(await refused(`from read_json('ZONE/a.json', columns={'l': '${type}[]'})`)).toContain(
      'two meanings',
    )
  }
  zone({ 'a.json': '[{"d": "13-04-2026"}, {"d": "04-05-2026"}]' })
  expect((await rows("from read_json('ZONE/a.json', columns={'d': 'DATE'})")).rows).toEqual([
    ['2026-04-13'],
    ['2026-05-04'],
  ])
})
