import { expect, test } from 'bun:test'
import { gzipSync } from 'node:zlib'
import { lines, testZone } from './test-zone.ts'

const { directory, zone, rows, refused, engine } = testZone()
const csv = "select * from read_csv('ZONE/*')"
const json = "select * from read_json('ZONE/*')"

test('a quote that comes late is no part of its value', async () => {
  const early = lines(21_000, (at) => `${at},abc`)
  zone({ 'a.csv': `id,v\n${early}30000,"a, ""b"""\n30001,5" pipe\n` })
  const late = (await rows(`${csv} where id >= 30000 order by id`)).rows
  expect(late).toEqual([
    ['30000', 'a, "b"'],
    ['30001', '5" pipe'],
  ])
  zone({ 'a.csv.gz': gzipSync(`id,v\n${early}30000,"x"\n`) })
  expect((await rows(`${csv} where id = 30000`)).rows).toEqual([['30000', 'x']])
})

test.each([
  ['after numbers', 'id,name\n1,a\n', '2,b\n'],
  ['between texts', 'city,name\nx,a\n', 'y,b\n'],
  ['behind the sample', `id,name\n${lines(21_000, (at) => `${at},a`)}`, '3,b\n'],
  ['with other line ends', 'id,name\r\n1,a\r\n', '2,b\r\n'],
])('a header that comes again is refused: %s', async (_, before, after) => {
  const [header = ''] = before.split('\n')
  zone({ 'a.csv': `${before}${header}\n${after}` })
  const line = before.split('\n').length
  expect(await refused(csv)).toMatch(
    new RegExp(`a\\.csv line ${line}, column "(id|city)": the line repeats the header`),
  )
  expect((await rows(csv.replace(')', ', header=true)'))).warnings.join()).toContain('repeats the header')
})

test('a row like the first one is no header', async () => {
  zone({ 'a.csv': '1,a\n2,b\n1,a\n' })
  expect((await rows(csv)).rows).toHaveLength(3)
  zone({ 'a.csv': 'word\nsun\nword\n' })
  expect((await rows(csv)).rows).toEqual([['sun'], ['word']])
})

test('points that can separate thousands cause a warning', async () => {
  zone({ 'a.csv': 'id;v;w\n1;1.234;1.5\n2;12.345;1.234\n' })
  const found = await rows(csv)
  expect(found.types).toEqual(['BIGINT', 'DOUBLE', 'DOUBLE'])
  expect(found.warnings).toEqual([
    expect.stringMatching(/a\.csv, column "v": "1\.234" is read as .+thousands='\.', decimal_separator=','/),
  ])
  const given = await rows("from read_csv('ZONE/*', thousands='.', decimal_separator=',')")
  expect([given.warnings, given.rows[1]?.[1]]).toEqual([[], '12345'])
  zone({ 'a.csv': 'id,v\n1,1.234\n2,12.345\n' })
  expect((await rows(csv)).warnings).toEqual([])
})

test('a name that a header has twice causes a warning', async () => {
  zone({ 'a.csv': 'id,name,Name\n1,a,b\n' })
  expect((await rows(csv)).warnings).toEqual([
    expect.stringMatching(/a\.csv, column "Name": the header has the name twice/),
  ])
  zone({ 'a.csv': 'id,name,name_1\n1,a,b\n' })
  expect((await rows(csv)).warnings).toEqual([])
})

test('names in the order of another file are refused for typed columns', async () => {
  zone({ 'a.csv': 'id,name\n1,a\n', 'b.csv': 'name,id\nb,2\n' })
  const typed = "from read_csv('ZONE/*', columns={'id': 'VARCHAR', 'name': 'VARCHAR'})"
  expect(await refused(typed)).toMatch(/b\.csv, column "name": the column is number 1 in the file/)
  expect(await refused("from read_csv('ZONE/*', names=['id', 'name'])")).toContain('b.csv, column "name"')
  zone({ 'a.csv': 'a,b\n1,x\n' })
  expect((await rows(typed)).rows).toEqual([['1', 'x']])
})

test('columns and keys that union_by_name=false leaves out are named', async () => {
  zone({ 'a.csv': 'id\n1\n', 'b.csv': 'id,late\n2,3\n' })
  expect((await rows(csv.replace(')', ', union_by_name=false)'))).warnings.join()).toContain(
    'left out: "late"',
  )
  await engine().run(`copy (select 1 as id) to '${zone({})}/a.parquet'`)
  await engine().run(`copy (select 2 as id, 3 as late) to '${directory}/landing/z/b.parquet'`)
  const parquet = await rows("from read_parquet('ZONE/*', union_by_name=false)")
  expect(parquet.warnings.join()).toMatch(/b\.parquet, column "late": .+ left out/)
  zone({ 'a.json': '{"id":1}\n', 'b.json': '{"id":2,"late":3}\n' })
  const partial = json.replace(')', ', union_by_name=false, maximum_sample_files=1)')
  expect((await rows(partial)).warnings.join()).toContain('left out: "late"')
})

test('a line that is too long is an error of its file', async () => {
  zone({ 'a.csv': 'id,v\n1,2\n', 'b.csv': `id,v\n1,${'x'.repeat(2_100_000)}\n` })
  expect(await refused(csv)).toMatch(/b\.csv/)
})

test('auto_detect=true leaves the choice of types to the reader', async () => {
  zone({ 'a.csv': `id,v\n${lines(21_000, (at) => `${at},1`)}30000,1.5\n` })
  expect((await rows("select max(v) from read_csv('ZONE/*', auto_detect=true)")).rows).toEqual([[1.5]])
})

test.each(['1e400', '-1e400', '1e-400', '2.5E+999'])(
  'a number beyond the range of DOUBLE: %s',
  async (value) => {
    zone({ 'a.csv': `id,v\n1,1.5\n2,${value}\n` })
    const found = await rows(`select v from read_csv('ZONE/*') where id = 2`)
    expect(found.rows).toEqual([[value]])
    expect(found.warnings.join()).toContain(`"${value}" is not of type DOUBLE`)
    zone({ 'a.json': `{"id":1,"o":{"v":1.5}}\n{"id":2,"o":{"v":${value}}}\n` })
    expect(await refused(json)).toContain('a.json, column "')
    expect(await refused(json)).toContain(
      `v": ${value.includes('-400') ? `"${value}" is read as 0` : 'no number type keeps'}`,
    )
  },
)

test.each([
  ['lines that end in different ways', 'id,v\r\n1,a\n2,b\r\n', /b\.csv: the lines end in different ways/],
  ['zeros after compressed data', Buffer.concat([gzipSync('id,v\n1,a\n'), Buffer.alloc(512)]), /b\.csv\.gz/],
])('the error of a file that cannot be read names the file: %s', async (_, content, reason) => {
  zone({ 'a.csv': 'id,v\n1,a\n', [typeof content === 'string' ? 'b.csv' : 'b.csv.gz']: content })
  expect(await refused(csv)).toMatch(reason)
})

test.each([
  ['bzip2', '425a6839314159265359', 'compressed with bzip2'],
  ['xz', 'fd377a585a000004', 'compressed with xz'],
  ['an old workbook', 'd0cf11e0a1b11ae1', 'an old workbook'],
  ['UTF-32', 'fffe00006100000062000000', 'UTF-32 text'],
])('the error of a file in another format names the format: %s', async (_, hex, reason) => {
  zone({ 'a.csv': Buffer.from(hex, 'hex') })
  expect(await refused(csv)).toContain(`a.csv is ${reason}`)
})

test('keys outside of the columns of a JSON call cause a warning', async () => {
  zone({ 'a.json': '{"id":1,"o":[{"a":1,"b":2}]}\n{"ID":2,"late":3}\n' })
  const { warnings } = await rows("from read_json('ZONE/*', columns={'id': 'INT', 'o': 'STRUCT(a INT)[]'})")
  expect(warnings).toEqual([
    expect.stringContaining('a.json: keys without a column are left out: "ID", "late"'),
    expect.stringContaining('a.json: keys without a column are left out: "o.b"'),
  ])
  const all = "from read_json('ZONE/*', columns={'id': 'INT', 'ID': 'INT', 'late': 'INT', 'o': 'JSON'})"
  expect(await refused(all)).toContain('ID')
})

test('keys of JSON that differ in case only cause a warning', async () => {
  zone({ 'a.json': '{"a":1}\n', 'b.json': '{"A":2}\n' })
  expect((await rows(json)).warnings).toEqual([
    expect.stringMatching(
      /b\.json, column "A": another key differs in case only: the values are in column "A_1"/,
    ),
  ])
  zone({ 'a.json': '{"a":1.5,"A":9007199254740993}\n{"A":1.5}\n' })
  expect(await refused(json)).toContain('long numbers of the files would be rounded')
})

test.each([
  ['{"name":"x","Name":"y","Name_1":"z"}', [['x', 'y', 'z']]],
  ['{"Name_1":"z","name":"x","Name":"y"}', [['z', 'x', 'y']]],
  [
    '[{"a":1,"A_1":2},{"A":3}]',
    [
      ['1', '2', null],
      [null, null, '3'],
    ],
  ],
])('a key of JSON whose new name is taken keeps its values: %s', async (content, expected) => {
  zone({ 'a.json': content })
  const found = await rows(json)
  expect([found.rows, found.warnings]).toEqual([expected, [expect.stringMatching(/_1_1" is no key of/)]])
})

test('keys in another case stand beside long numbers', async () => {
  zone({ 'a.json': '{"id":123456789012345678,"Id":5,"price":1.5}\n' })
  const found = await rows(json)
  expect([found.rows, found.warnings]).toEqual([
    [['123456789012345678', '5', 1.5]],
    [expect.stringContaining('a.json, column "Id": another key differs in case only')],
  ])
})

test('a key of JSON with a number keeps long numbers', async () => {
  zone({ 'a.json': '{"qty":1.5,"qty_1":9007199254740993}\n{"qty_1":2.5}\n' })
  const found = await rows(json)
  expect([found.warnings, found.rows[0]]).toEqual([[], [1.5, '9007199254740993.0']])
})

test('a number of JSON that becomes a boolean causes a warning', async () => {
  zone({ 'a.json': '{"a":5}\n' })
  const { warnings } = await rows("from read_json('ZONE/*', columns={'a': 'BOOLEAN'})")
  expect(warnings.join()).toContain('"5" is rounded or cut by the type BOOLEAN')
})

test.each([
  ['a scale', '12345678901234567890123456789012345678::decimal(38,0)', '1.55::decimal(10,2)', '"1.55"'],
  [
    'a time without a zone',
    "'2026-01-01 10:00:00+00'::timestamptz",
    "timestamp '2026-01-01 10:00:00'",
    '10:00:00',
  ],
  ['a date', "'2026-01-01 10:00:00+00'::timestamptz", "date '2026-01-01'", '"2026-01-01"'],
  ['a text with escapes', "'a'::blob", "'\\x41'", 'VARCHAR'],
])('Parquet files with types that lose %s are refused', async (_, first, second, value) => {
  const path = zone({})
  await engine().run(`copy (select ${first} as v) to '${path}/a.parquet'`)
  await engine().run(`copy (select ${second} as v) to '${path}/b.parquet'`)
  const reason = await refused("from read_parquet('ZONE/*')")
  expect(reason).toMatch(/b\.parquet, column "v"/)
  expect(reason).toContain(value)
})

test.each([
  ['code,name\n7,x\n', "columns={'id': 'INTEGER', 'code': 'VARCHAR'}", [7, 'x']],
  ['id,first,last\n1,a,b\n', "names=['last', 'first', 'surname'], skip=1, header=false", ['1', 'a', 'b']],
])('names that rename some columns of a header are taken: %j', async (content, argument, values) => {
  zone({ 'a.csv': content })
  expect((await rows(`from read_csv('ZONE/*', ${argument})`)).rows).toEqual([values])
})

test.each([["delimm=';'"], ["columns={'id': 'INTT', 'v': 'INT'}"]])(
  'a mistake in the call is no fault of a file: %s',
  async (argument) => {
    zone({ 'a.csv': 'id,v\n1,2\n' })
    expect(await refused(`from read_csv('ZONE/*', ${argument})`)).not.toContain('a.csv cannot be read')
  },
)

test.each(['', '\n', '\ufeff', ' \r\n\r\n'])(
  'an empty file adds no column and no row: %j',
  async (content) => {
    zone({ 'a.csv': 'id,v\n1,2\n', 'b.csv': content, 'c.csv.gz': gzipSync(content) })
    for (const text of [
      csv,
      csv.replace("'ZONE/*'", "[\n'ZONE/*'\n], filename=false"),
      "from 'ZONE/*.csv'",
    ]) {
      const found = await rows(text)
      expect([found.types, found.rows]).toEqual([['BIGINT', 'BIGINT'], [['1', '2']]])
      expect(found.sql.split('\n')).toHaveLength(text.split('\n').length)
      expect(found.warnings).toEqual([expect.stringMatching(/b\.csv (is|and 1 more files are) empty$/)])
    }
    zone({ 'a.csv': content })
    expect((await rows(csv)).warnings.join()).toContain('a.csv is empty')
  },
)

test('a note for spreadsheets is no header', async () => {
  zone({ 'a.csv': '\ufeffsep=;\r\nid;v\r\n1;2,5\r\n' })
  const found = await rows("from read_csv('ZONE/*', decimal_separator=',')")
  expect(found).toMatchObject({ rows: [['1', 2.5]], warnings: [] })
  zone({ 'a.csv': 'sep=,\nid,v\n1,2\n', 'b.csv': 'id,v\n1,2\n' })
  expect(await refused(csv)).toMatch(/a\.csv: the first line is a note for spreadsheets .+b\.csv/)
})

test('names that are not found in the first line cause a warning', async () => {
  zone({ 'a.csv': 'region,2024\nx,1\n' })
  expect((await rows(csv)).warnings).toEqual([expect.stringContaining('a.csv: no line is read as a header')])
  expect((await rows(csv.replace(')', ', header=true)'))).warnings).toEqual([])
  expect((await rows(csv.replace(')', ', header=false)'))).warnings).toEqual([])
})

test.each(['INTEGER', 'DOUBLE', 'DECIMAL(9,2)', 'FLOAT'])(
  'a type of the author that drops leading zeros causes a warning: %s',
  async (type) => {
    zone({ 'a.csv': 'id,v\n1,00123\n2,0\n3,0.5\n'.replace(type === 'INTEGER' ? '0.5' : '', '') })
    const found = await rows(csv.replace(')', `, types={'v': '${type}'})`))
    expect(found.warnings).toEqual([
      expect.stringContaining('column "v": "00123" is rounded or cut by the type'),
    ])
  },
)

test('a table of rejected rows is no error', async () => {
  zone({ 'a.csv': 'id,v\n1,2\nx,3\n', 'b.csv': 'id,v\n4,5\n' })
  const rejecting = csv.replace(')', ", store_rejects=true, types={'id': 'INTEGER'})")
  const found = await rows(rejecting)
  expect(found.rows).toEqual([
    [1, '2'],
    [4, '5'],
  ])
  zone({ 'a.csv': 'id,v\n1,2\n', 'b.csv': 'id,v,w\n4,5,6\n' })
  const { warnings } = await rows(rejecting)
  expect(warnings.join()).toMatch(/b\.csv: columns that .+a\.csv .+: "w": read the file by a call of its own/)
  expect(found.warnings).toEqual([expect.stringMatching(/because of store_rejects=true, .+a\.csv line 3/)])
})

test('a code with an exponent causes a warning', async () => {
  zone({ 'a.csv': 'sku,v\n12345,1e+05\n1E5,2.5e-7\n' })
  const found = await rows(csv)
  expect(found.rows).toEqual([
    [12345, 100000],
    [100000, 2.5e-7],
  ])
  expect(found.warnings).toEqual([
    expect.stringMatching(
      /a\.csv, column "sku": "1E5" is read as a number with an exponent: .+types=\{'sku'/,
    ),
  ])
})

test.each([
  [
    'a.csv',
    "read_csv('ZONE/*', ignore_errors=true, types={'id': 'INTEGER'})",
    'id,v\n1,2\nx,3\n',
    /a\.csv line 3/,
  ],
  ['a.json', "read_ndjson('ZONE/*', ignore_errors=true)", '{"id":1}\n{id:2}\n', /a\.json/],
])('rows that ignore_errors leaves out are named: %s', async (name, call, content, place) => {
  zone({ [name]: content })
  expect((await rows(`from ${call}`)).warnings).toEqual([expect.stringMatching(place)])
  zone({
    [name]: content
      .split('\n')
      .slice(0, name === 'a.csv' ? 2 : 1)
      .join('\n'),
  })
  expect((await rows(`from ${call}`)).warnings).toEqual([])
})

test('a row that changes the format is left out without a wrong reason', async () => {
  zone({ 'a.csv': `id,v\n${'1,2\n'.repeat(5)}x,y,z\n7,8\n` })
  expect((await rows("from read_csv('ZONE/*', ignore_errors=true)")).warnings).toEqual([
    'rows are left out or empty, because of ignore_errors=true',
  ])
})

test('files with other quotes have their own format, however many they are', async () => {
  const files = Object.fromEntries(Array.from({ length: 11 }, (_, at) => [`${at}.csv`, `id,v\n${at},"a"\n`]))
  zone({ ...files, 'large.csv': `id,v\n${lines(50, (at) => `${at},'b, c'`)}` })
  expect((await rows("select distinct v from read_csv('ZONE/*') order by v")).rows).toEqual([['a'], ['b, c']])
})
