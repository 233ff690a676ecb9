import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { lineChanges } from './csv-lines.ts'
import { lines, testZone } from './test-zone.ts'

const { zone, rows, refused } = testZone()
const csv = "select * from read_csv('ZONE/*')"
const count = "select count(*) from read_csv('ZONE/*')"
/** Longer than the engine's sample. */
const early = `id,v\n${lines(21_000, (at) => `${at},abc`)}`
const CHUNK_BYTES = 1_048_576

test('only the first line of a file is its header', async () => {
  const values = (rowCount: number) => lines(rowCount, (at) => `${at % 300},${at % 7}`)
  zone({ 'a.csv': `Sales 2026\nid,v\n${values(200_000)}` })
  expect((await rows(count)).rows).toEqual([['200000']])
  zone({ 'a.csv.gz': gzipSync(`Sales 2026\nid,v\n${values(6_000)}`) })
  expect((await rows(count)).rows).toEqual([['6000']])
  zone({ 'a.csv.gz': gzipSync(`name\n${lines(6_000, (at) => `"Smith ${at % 50}, ${at % 20}"`)}`) })
  expect((await rows(count)).rows).toEqual([['6000']])
})

test('a row that begins with the header is no header', async () => {
  const whole = (end: string) => {
    const row = 'x,1\n'
    const before = 'id,v\n'.length + end.length
    const rest = CHUNK_BYTES - before
    const first = row.padStart(row.length + (rest % row.length), 'y')
    return `id,v\n${first}${row.repeat(Math.floor(rest / row.length) - 1)}${end}`
  }
  expect(whole('id,v')).toHaveLength(CHUNK_BYTES)
  zone({ 'a.csv': `${whole('id,v')}2\nx,3\n` })
  await rows(count)
  for (const more of ['\nx,3\n', '\r\nx,3\r\n', '']) {
    zone({ 'a.csv': `${whole('id,v')}${more}` })
    expect(await refused(count)).toContain('the line repeats the header')
  }
  zone({ 'a.csv': `${whole('id')},v\nx,3\n` })
  expect(await refused(count)).toContain('the line repeats the header')
})

test('the search for the header takes linear time', async () => {
  const path = zone({ 'a.csv': `${','.repeat(16_000)}\n${','.repeat(800_000)}` })
  const call = {
    kind: 'csv',
    name: 'read_csv',
    arguments: [],
    start: 0,
    close: 0,
    end: 0,
    alias: null,
    paths: null,
  } as const
  const started = process.cpuUsage()
  await lineChanges({
    call: { ...call, arguments: [] },
    files: [join(path, 'a.csv')],
    isNewTable: false,
    describe: async () => [],
    rows: async () => [],
    warn: () => {},
  })
  const { user, system } = process.cpuUsage(started)
  // A quadratic search takes 20 seconds.
  expect((user + system) / 1_000_000).toBeLessThan(3)
}, 60_000)

test('late quotes have the escape of their file', async () => {
  const late = `${csv} where id = 30000`
  zone({ 'a.csv': `${early}30000,"x \\"y\\" z"\n` })
  expect((await rows(late)).rows).toEqual([['30000', 'x "y" z']])
  const escaped = late.replace("'ZONE/*'", "'ZONE/*', escape='\\'")
  expect((await rows(escaped)).rows).toEqual([['30000', 'x "y" z']])
})

test.each([
  ['without quotes', '1,it\'s\n2,5" pipe\n', ["it's", '5" pipe']],
  ['with an apostrophe first', "1,'t is\n2,c\n", ["'t is", 'c']],
  ['with the same quotes', '1,"a ""x"", b"\n2,"c"\n', ['a "x", b', 'c']],
  ['with another delimiter', '1;"a; b"\n2;c\n', ['a; b', 'c']],
])('a file beside late quotes is read as before: %s', async (_, content, values) => {
  const header = content.includes(';') ? 'id;v\n' : 'id,v\n'
  zone({ 'a.csv': `${early}30000,"x, y"\n`, 'b.csv': `${header}${content}` })
  const found = await rows(`select v from read_csv('ZONE/*', filename=true) where filename like '%/b.csv'`)
  expect([found.rows, found.warnings]).toEqual([values.map((value) => [value]), []])
  expect((await rows(`${csv} where id = 30000`)).rows).toEqual([['30000', 'x, y']])
})

test.each([
  ['a backslash', 'id,v\n1,"a \\"x\\", b"\n2,"c"\n', 'a "x", b'],
  ['quotes in values', 'id,v\n1,"big" one\n2,c\n', '"big" one'],
  ['single quotes', "id;v\n1;'a; b'\n2;'c'\n", 'a; b'],
])('a file with other quotes than late ones is read as before: %s', async (_, content, value) => {
  zone({ 'a.csv': `${early}30000,"x"\n`, 'b.csv': content })
  const found = await rows(`select v from read_csv('ZONE/*', filename=true) where filename like '%/b.csv'`)
  expect(found.rows[0]).toEqual([value])
  expect(found.warnings).toEqual([
    expect.stringMatching(/a\.csv: quotes that come late stay .+b\.csv has other quotes/),
  ])
})

test.each([
  ['other letter case', 'id,name\n1,a\nID,Name\n2,b\n', 3],
  ['a byte order mark', 'id,name\n1,a\n\ufeffid,name\n2,b\n', 3],
  ['quotes', 'Id,"Full name"\n1,a\n2,b\nID,full name\n', 4],
])('a repeated header is found in another form: %s', async (_, content, line) => {
  zone({ 'a.csv': content })
  expect(await refused(csv)).toContain(`a.csv line ${line}, column`)
})

test('a line like the header within a value is no header', async () => {
  zone({ 'a.csv': 'id,v\n1,"see:\nid,v\n3,4"\n2,b\n' })
  expect((await rows(csv)).rows).toEqual([
    ['1', 'see:\nid,v\n3,4'],
    ['2', 'b'],
  ])
})

test.each(['all_varchar=true', "ignore_errors=true, types={'id': 'BIGINT'}"])(
  'a repeated header is read as the author says: %s',
  async (argument) => {
    zone({ 'a.csv': 'id,v\n1,a\nid,v\n2,b\n' })
    const found = await rows(`${csv.replace("'ZONE/*'", `'ZONE/*', ${argument}`)} where v <> 'v'`)
    expect(found.rows).toEqual([
      ['1', 'a'],
      ['2', 'b'],
    ])
    expect(found.warnings.join()).toContain('a.csv line 3, column "id": the line repeats the header')
  },
)
