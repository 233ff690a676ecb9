// Planning may keep unnecessary files, but must never leave out a necessary one.
import { afterAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import fc from 'fast-check'
import { currentSchema, type TableMetadata } from '../../lake/iceberg/format/metadata.ts'
import { fileBounds } from '../../lake/iceberg/read/file-bounds.ts'
import { liveManifestsOf, tableFilesOf } from '../../lake/iceberg/read/scan.ts'
import { readTable } from '../../lake/iceberg/read/table-sql.ts'
import { useTestLake } from '../../lake/iceberg/test-lake.ts'
import { quoteLiteral } from '../../lake/quote.ts'
import { testDirectory } from '../../tools/kit/directory.ts'
import { limits } from './limits.ts'
import { ScanPlanner } from './scan-planner.ts'

setDefaultTimeout(120_000)

const lake = await useTestLake()
const planner = new ScanPlanner(testDirectory())
afterAll(() => planner.close())

const FILES = 24
const COLUMNS = {
  p: 'BIGINT',
  b: 'BIGINT',
  x: 'DOUBLE',
  f: 'FLOAT',
  m: 'DECIMAL(14,2)',
  wide: 'DECIMAL(30,4)',
  s: 'VARCHAR',
  bl: 'BLOB',
  d: 'DATE',
  ts: 'TIMESTAMP',
  tz: 'TIMESTAMPTZ',
  ti: 'TIME',
  u: 'UUID',
  bo: 'BOOLEAN',
  added: 'INTEGER',
  named: 'INTEGER',
} as const
type Column = keyof typeof COLUMNS
const NAMES = Object.keys(COLUMNS) as Column[]

/** Rows of one file. `p` is widened and `added` is added on the way; `named` is renamed afterwards. */
const rowsOfFile = (n: number) => `
  SELECT (${n} * 10 + i)::${n < FILES / 3 ? 'INTEGER' : 'BIGINT'} AS p,
    CASE WHEN ${n} % 5 <> 0 THEN (9007199254740990 + ${n} * 3 + i) END AS b,
    CASE WHEN ${n} % 7 = 3 AND i = 2 THEN 'nan'::DOUBLE WHEN i = 1 THEN -0.0 ELSE ${n} / 3.0 - i END::DOUBLE AS x,
    CASE WHEN ${n} % 6 = 1 THEN NULL WHEN i = 3 AND ${n} = 8 THEN 'inf'::FLOAT ELSE ((${n} + i) * 0.1)::FLOAT END AS f,
    ((${n} - 12) * 1.25 + i)::DECIMAL(14,2) AS m, (${n} * 1000000000000 + i)::DECIMAL(30,4) AS wide,
    CASE ${n} % 4 WHEN 0 THEN 'a common beginning of texts ' || (${n} * 10 + i) WHEN 1 THEN chr(97 + ${n})
      WHEN 2 THEN chr(${n} * 500 + 200) || i ELSE chr(128512 + ${n}) || '-' || chr(65535) END AS s,
    (chr(65 + ${n}) || i)::BLOB || '\\xFF\\x00'::BLOB AS bl,
    CASE WHEN i = 0 THEN NULL ELSE DATE '1969-12-20' + ${n} END AS d,
    TIMESTAMP '1969-12-31 20:00:00' + to_hours(${n}) + to_minutes(i) AS ts,
    TIMESTAMPTZ '1969-12-30 00:00:00+00' + to_days(${n}) + to_seconds(i) AS tz,
    TIME '00:00:00' + to_minutes(${n} * 50 + i) AS ti, md5((${n} * 2 + i % 2)::VARCHAR)::UUID AS u,
    ${n} % 3 = 0 OR i = 2 AS bo, ${n >= FILES / 2 ? `(${n} + i)::INTEGER AS added,` : ''} (${n} % 6)::INTEGER AS first_name
  FROM range(5) t(i)`

async function written(partitionBy: { column: string; transform: 'identity' | 'day' | 'month' }[]) {
  let table: TableMetadata | null = null
  for (let n = 0; n < FILES; n += 1)
    ({ table } = await lake.writeBy(table, rowsOfFile(n), { mergeStrategy: 'append_only', partitionBy }))
  if (table === null) throw new Error('there is no table')
  const schemas = table.schemas.map((schema) => ({
    ...schema,
    fields: schema.fields.map((field) => (field.name === 'first_name' ? { ...field, name: 'named' } : field)),
  }))
  return { ...table, schemas }
}

/** The table by its files, which can be read completely or selected by a statement. */
async function opened(table: TableMetadata) {
  const schema = currentSchema(table)
  const live = await liveManifestsOf(table, table['current-snapshot-id'] ?? 0n, lake.reader)
  const files = await tableFilesOf(live, lake.reader)
  const bounds = (of: typeof files) => fileBounds(of, table['partition-specs'], schema, limits.boundsBytes)
  const read = (selected: typeof files) =>
    readTable(
      schema,
      selected.map(({ file }) => ({ path: lake.pathOf(file.location) })),
    )
  const planned = { catalog: 'ns', schema: 'gold', name: 't', from: readTable(schema, []) }
  async function selectedBy(sql: string, from = bounds(files)) {
    const statement = { sql, kind: 'select' as const }
    const [filter = null] = await planner.plan({
      statement,
      catalog: 'ns',
      tables: [planned],
      rowsLimit: 1_000,
    })
    const selected = filter && from.select(filter)
    return selected === null ? files : selected.flatMap((index) => files[index] ?? [])
  }
  return { files, bounds, read, selectedBy }
}

const plain = await opened(await written([]))
const partitioned = await opened(
  await written([
    { column: 'd', transform: 'month' },
    { column: 'ts', transform: 'day' },
    { column: 'first_name', transform: 'identity' },
  ]),
)
await lake.rows('CREATE SCHEMA gold')
await lake.rows(`CREATE VIEW gold.t AS SELECT * FROM ${plain.read(plain.files)}`)
const valuesOf = new Map<Column, string[]>()
for (const name of NAMES) {
  const rows = await lake.rows(
    `SELECT DISTINCT CAST(${name} AS VARCHAR) AS v FROM gold.t WHERE ${name} IS NOT NULL ORDER BY 1`,
  )
  valuesOf.set(
    name,
    rows.map(({ v }) => String(v)),
  )
}

const column = fc.constantFrom(...NAMES)
const literalOf = (name: Column) =>
  fc
    .tuple(fc.constantFrom(...(valuesOf.get(name) ?? [])), fc.boolean())
    .map(([text, isTyped]) => (isTyped ? `${quoteLiteral(text)}::${COLUMNS[name]}` : quoteLiteral(text)))
const comparison = fc.constantFrom(
  '=',
  '<',
  '<=',
  '>',
  '>=',
  '<>',
  'IS NOT DISTINCT FROM',
  'IS DISTINCT FROM',
)
const spelled = (name: string) => fc.constantFrom(name, name.toUpperCase(), `t.${name}`, `"${name}"`)

const leaf = column.chain((name) => {
  const literal = literalOf(name)
  const ref = spelled(name)
  return fc.oneof(
    { weight: 4, arbitrary: fc.tuple(ref, comparison, literal).map((parts) => parts.join(' ')) },
    fc.tuple(literal, comparison, ref).map((parts) => parts.join(' ')),
    fc
      .tuple(ref, fc.array(literal, { minLength: 1, maxLength: 5 }))
      .map(([a, all]) => `${a} IN (${all}, NULL)`),
    fc.tuple(ref, literal, literal).map(([a, from, to]) => `${a} BETWEEN ${from} AND ${to}`),
    ref.map((a) => `${a} IS NULL`),
    ref.map((a) => `${a} IS NOT NULL`),
    fc.tuple(ref, literal).map(([a, value]) => `CAST(${a} AS VARCHAR) = CAST(${value} AS VARCHAR)`),
    fc.constantFrom(
      'p::DOUBLE > 100.5',
      'p = 33.0',
      'p > 30.5 AND p < 61',
      'p + 0 = 40',
      'f > 0.3',
      'x = 0',
      "x = 'nan'",
      "x >= 'inf'",
      'm < 1.2345',
      'b = 9007199254740993',
      "s LIKE 'a common%'",
      "s ILIKE 'A COMMON beginning of texts 4%'",
      "s COLLATE NOCASE = 'B'",
      "lower(s) = 'f'",
      "s = 'B' COLLATE NOCASE",
      "ts::DATE = '1970-01-01'",
      'year(d) = 1970',
      "d > ts AND d <= '1970-01-05'",
      "tz = TIMESTAMP '1970-01-05'",
      "tz > '1970-01-05 10:00:00+10'",
      'bo',
      'NOT bo',
      "d = DATE '1969-12-31' + INTERVAL 1 DAY",
      'p = (SELECT max(p) - 5 FROM gold.t WHERE named = 3)',
      'p IN (SELECT p FROM gold.t WHERE bo AND d IS NULL)',
      "EXISTS (FROM gold.t other WHERE other.p = t.p + 1 AND other.s > 'b')",
      'TRUE',
      'FALSE',
      'NULL = p',
    ),
  )
})
const { predicate } = fc.letrec<{ predicate: string }>((tie) => ({
  predicate: fc.oneof(
    { maxDepth: 3 },
    { weight: 3, arbitrary: leaf },
    fc.tuple(tie('predicate'), tie('predicate')).map(([a, b]) => `(${a}) AND (${b})`),
    fc.tuple(tie('predicate'), tie('predicate')).map(([a, b]) => `(${a}) OR (${b})`),
    tie('predicate').map((a) => `NOT (${a})`),
  ),
}))
const statement = fc
  .tuple(
    fc.constantFrom(
      (where: string) => `FROM gold.t WHERE ${where}`,
      (where: string) => `SELECT * FROM GOLD.T WHERE ${where} ORDER BY ALL LIMIT 7`,
      (where: string) => `WITH c AS (FROM gold.t) FROM c AS t WHERE ${where}`,
      (where: string) =>
        `WITH c AS MATERIALIZED (FROM gold.t) FROM c AS t WHERE ${where} UNION ALL FROM c WHERE p = 7`,
      (where: string) => `FROM gold.t WHERE ${where} UNION ALL FROM gold.t WHERE p < 12`,
      (where: string) =>
        `SELECT t.*, r.s AS other FROM gold.t t JOIN gold.t r USING (p) WHERE ${where.replaceAll(/\b(?<!t\.)s\b(?! AS)/g, 't.s')}`,
      (where: string) => `SELECT r.p, t.* FROM gold.t r LEFT JOIN gold.t ON t.b = r.b + 1 AND (${where})`,
      (where: string) => `SELECT named, count(*), max(p) FROM gold.t WHERE ${where} GROUP BY ALL`,
      (where: string) =>
        `FROM (SELECT *, row_number() OVER (PARTITION BY named ORDER BY p) AS n FROM gold.t) AS t WHERE ${where}`,
      (where: string) => `FROM (FROM gold.t ORDER BY p LIMIT 20) AS t WHERE ${where}`,
    ),
    predicate,
  )
  .map(([shape, where]) => shape(where))

/** The rows of a statement, in any order. A statement that fails has none. */
async function answer(sql: string, source: string): Promise<string[] | string> {
  await lake.rows(`CREATE OR REPLACE VIEW gold.t AS SELECT * FROM ${source}`)
  try {
    return (await lake.rows(`SELECT CAST(q AS VARCHAR) AS v FROM (${sql}) q`))
      .map(({ v }) => String(v))
      .sort()
  } catch (error) {
    return String(error)
  }
}

describe('the files selected for a statement', () => {
  test.each([
    ['an unpartitioned table', plain],
    ['a partitioned table', partitioned],
  ])('hold all rows of its answer: %s', async (_, { files, read, selectedBy }) => {
    let [withFewerFiles, failed] = [0, 0]
    await fc.assert(
      fc.asyncProperty(statement, async (sql) => {
        const selected = await selectedBy(sql)
        const expected = await answer(sql, read(files))
        if (typeof expected === 'string') failed += 1
        else expect(await answer(sql, read(selected))).toEqual(expected)
        if (selected.length < files.length) withFewerFiles += 1
      }),
      { numRuns: 125 },
    )
    expect(withFewerFiles).toBeGreaterThan(20)
    expect(failed).toBeLessThan(60)
  })
})
