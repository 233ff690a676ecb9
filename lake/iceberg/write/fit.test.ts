// Writes values of one type into columns of another by each strategy, and reads them back.

import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import { readIndependently, useTestLake } from '../test-lake.ts'
import { misfitIn } from './fit.ts'
import type { WriteRules } from './result-write.ts'

setDefaultTimeout(60_000)

const lake = await useTestLake()

const STRATEGIES: Partial<WriteRules>[] = [
  { mergeStrategy: 'append_only' },
  { mergeStrategy: 'append_only', partitionBy: [{ column: 'id', transform: 'identity' }] },
  { mergeStrategy: 'incremental', uniqueKey: ['id'] },
  { mergeStrategy: 'delete_insert', uniqueKey: ['id'] },
  { mergeStrategy: 'scd2', uniqueKey: ['id'] },
  { mergeStrategy: 'snapshot', partitionColumn: 'id' },
]
const [APPEND = {}] = STRATEGIES

/** Writes `before` and then `after` into the column `a`. Returns the text of the second value in the table. */
async function written(before: string, after: string, rules: Partial<WriteRules> = APPEND) {
  const first = await lake.writeBy(null, `SELECT 1 AS id, ${before} AS a`, rules)
  const { table } = await lake.writeBy(first.table, `SELECT 2 AS id, ${after} AS a`, rules)
  const rows = await lake.rows(
    `SELECT typeof(a) AS type, a::VARCHAR AS value FROM ${await lake.source(table)} WHERE id = 2`,
  )
  return rows.map(({ type, value }) => [type, value])
}

describe('a value that fits exactly is accepted', () => {
  test.each([
    ['1::DECIMAL(9,2)', '1.2300::DECIMAL(9,4)', 'DECIMAL(9,2)', '1.23'],
    ['1::DECIMAL(9,2)', '(-0.5)::DOUBLE', 'DECIMAL(9,2)', '-0.50'],
    ['1::DECIMAL(9,2)', '1.1::FLOAT', 'DECIMAL(9,2)', '1.10'],
    ['1::DECIMAL(9,2)', '7::HUGEINT', 'DECIMAL(9,2)', '7.00'],
    ['1::INTEGER', '2.0::DOUBLE', 'INTEGER', '2'],
    ['1::INTEGER', '2.000::DECIMAL(9,3)', 'INTEGER', '2'],
    ['1::INTEGER', '2::UBIGINT', 'INTEGER', '2'],
    ['1::BIGINT', '9223372036854775807::HUGEINT', 'BIGINT', '9223372036854775807'],
    ['1::DOUBLE', '9007199254740992::BIGINT', 'DOUBLE', '9007199254740992.0'],
    ['1::DOUBLE', '0.1::DECIMAL(38,20)', 'DOUBLE', '0.1'],
    ['1::FLOAT', '16777216::INTEGER', 'FLOAT', '16777216.0'],
    ["DATE '2024-01-01'", "TIMESTAMP '2024-02-29 00:00:00'", 'DATE', '2024-02-29'],
    ['[1]', '[2.0, NULL]::DOUBLE[]', 'INTEGER[]', '[2, NULL]'],
    [
      "{'x': 1, 'y': 'a'}",
      "{'y': 'b', 'x': 2.0::DOUBLE}",
      'STRUCT(x INTEGER, y VARCHAR)',
      "{'x': 2, 'y': b}",
    ],
    [
      "{'x': [{'y': 1}]}",
      "{'x': [{'y': 2.0::DOUBLE}]}",
      'STRUCT(x STRUCT(y INTEGER)[])',
      "{'x': [{'y': 2}]}",
    ],
    ["MAP {'k': 1}", "MAP {'k': 2.0::DOUBLE}", 'MAP(VARCHAR, INTEGER)', '{k=2}'],
    ['[[1]]', '[[2.0], NULL]::DOUBLE[][]', 'INTEGER[][]', '[[2], NULL]'],
  ])('%s gets %s', async (before, after, type, value) => {
    for (const rules of STRATEGIES) expect(await written(before, after, rules)).toEqual([[type, value]])
  })
})

describe('an error names the value that does not fit, and both types', () => {
  test.each([
    ['1::DECIMAL(9,2)', '1.2345::DECIMAL(9,4)', 'a', 'DECIMAL(9,2)', 'DECIMAL(9,4)', '1.2345'],
    [
      '1::DECIMAL(9,2)',
      '12345678.0000::DECIMAL(12,4)',
      'a',
      'DECIMAL(9,2)',
      'DECIMAL(12,4)',
      '12345678.0000',
    ],
    ['1::DECIMAL(9,2)', '0.1::DOUBLE + 0.2::DOUBLE', 'a', 'DECIMAL(9,2)', 'DOUBLE', '0.30000000000000004'],
    ['1::INTEGER', '1.5::DOUBLE', 'a', 'INTEGER', 'DOUBLE', '1.5'],
    ['1::INTEGER', "'nan'::DOUBLE", 'a', 'INTEGER', 'DOUBLE', 'nan'],
    ['1::INTEGER', '2147483648::DOUBLE', 'a', 'INTEGER', 'DOUBLE', '2147483648.0'],
    ['1::BIGINT', '9223372036854775808::HUGEINT', 'a', 'BIGINT', 'DECIMAL(38,0)', '9223372036854775808'],
    ['1::DOUBLE', '9007199254740993::BIGINT', 'a', 'DOUBLE', 'BIGINT', '9007199254740993'],
    ['1::DOUBLE', '9223372036854775807::BIGINT', 'a', 'DOUBLE', 'BIGINT', '9223372036854775807'],
    ['1::FLOAT', '16777217::INTEGER', 'a', 'FLOAT', 'INTEGER', '16777217'],
    ["DATE '2024-01-01'", "TIMESTAMP '2024-02-29 00:00:01'", 'a', 'DATE', 'TIMESTAMP', '2024-02-29 00:00:01'],
    ['1', "'2'", 'a', 'INTEGER', 'VARCHAR', '2'],
    ["'a'", '5', 'a', 'VARCHAR', 'INTEGER', '5'],
    ['1', 'true', 'a', 'INTEGER', 'BOOLEAN', 'true'],
    ['[1]', '[1.5]::DOUBLE[]', 'a.element', 'INTEGER', 'DOUBLE', '1.5'],
    ["{'x': {'y': 1}}", "{'x': {'y': 'b'}}", 'a.x.y', 'INTEGER', 'VARCHAR', 'b'],
    ["MAP {'k': 1}", "MAP {'k': 'b'}", 'a.value', 'INTEGER', 'VARCHAR', 'b'],
    ["MAP {'k': 1}", 'MAP {1: 1}', 'a', 'MAP(VARCHAR, INTEGER)', 'MAP(INTEGER, INTEGER)', '{1=1}'],
    ["{'x': 1}", "MAP {'x': 1}", 'a', 'STRUCT(x INTEGER)', 'MAP(VARCHAR, INTEGER)', '{x=1}'],
    ['1', '[1]', 'a', 'INTEGER', 'INTEGER[]', '[1]'],
    ["'a'", "'b'::BLOB", 'a', 'VARCHAR', 'BLOB', 'b'],
  ])('%s refuses %s', async (before, after, column, tableType, newType, value) => {
    for (const rules of STRATEGIES)
      await expect(written(before, after, rules)).rejects.toThrow(
        `column "${column}" is ${tableType} in the table and ${newType} in the new rows, where the value ${value} does not fit: cast it`,
      )
  })

  test('and another error that quotes the check stays what it is', async () => {
    const first = await lake.writeBy(null, 'SELECT 1 AS a', APPEND)
    const sql = "SELECT CAST('x' || range AS DOUBLE) AS a FROM range(3)"
    const message = await lake.writeBy(first.table, sql, APPEND).then(String, (error: Error) => error.message)
    expect(message).toContain('Conversion Error')
    expect(misfitIn(message)).toBeNull()
  })

  test('also when it is the last of many rows', async () => {
    const first = await lake.writeBy(null, 'SELECT 1 AS a', APPEND)
    const sql = 'SELECT CASE WHEN i = 99999 THEN 1.5 ELSE i END::DOUBLE AS a FROM range(100000) t(i)'
    await expect(lake.writeBy(first.table, sql, APPEND)).rejects.toThrow('where the value 1.5 does not fit')
  })
})

describe('a column that never had a value takes its first type', () => {
  test.each([
    ['2.5::DOUBLE', 'DOUBLE', '2.5'],
    ["DATE '2026-01-01'", 'DATE', '2026-01-01'],
    ["{'one': [1]}", 'STRUCT(one INTEGER[])', "{'one': [1]}"],
    ['MAP {1: 2}', 'MAP(INTEGER, INTEGER)', '{1=2}'],
  ])('%s', async (after, type, value) => {
    for (const rules of STRATEGIES) {
      for (const before of ['NULL::VARCHAR', 'NULL::JSON', 'NULL::INTEGER[]'])
        expect(await written(before, after, rules)).toEqual([[type, value]])
      const empty = await lake.writeBy(null, "SELECT 'x' AS id, 'y' AS a WHERE false", rules)
      if (rules.partitionBy !== undefined) continue
      const { table } = await lake.writeBy(empty.table, `SELECT 1 AS id, ${after} AS a`, rules)
      expect(
        await lake.rows(`SELECT typeof(id) AS id, typeof(a) AS a FROM ${await lake.source(table)}`),
      ).toEqual([{ id: 'INTEGER', a: type }])
    }
  })

  test('but not when one row had a value', async () => {
    const first = await lake.writeBy(null, 'SELECT NULL::VARCHAR AS a, [1] AS b', APPEND)
    const second = await lake.writeBy(first.table, "SELECT 'x' AS a, [1] AS b", APPEND)
    await expect(lake.writeBy(second.table, 'SELECT 1 AS a', APPEND)).rejects.toThrow(
      'the value 1 does not fit',
    )
    await expect(lake.writeBy(second.table, "SELECT 'x' AS b", APPEND)).rejects.toThrow(
      'the value x does not fit',
    )
  })

  test('and earlier snapshots keep the old column', async () => {
    const first = await lake.writeBy(null, 'SELECT 1 AS id, NULL::VARCHAR AS a', APPEND)
    const second = await lake.writeBy(first.table, 'SELECT 2 AS id, 5 AS a', APPEND)
    expect(await lake.rows(`SELECT id, a FROM ${await lake.source(second.table)} ORDER BY id`)).toEqual([
      { id: 1, a: null },
      { id: 2, a: 5 },
    ])
    expect(await readIndependently(second.table)).toHaveLength(2)
  })
})

describe('a full refresh keeps the type of a column without values', () => {
  const refreshed = async (before: string, after: string, rules: Partial<WriteRules> = {}) => {
    const first = await lake.writeBy(null, `SELECT 1 AS id, ${before} AS a`, rules)
    const { table, change } = await lake.writeBy(first.table, after, rules)
    const [types] = await lake.rows(
      `SELECT any_value(typeof(id)) AS id, any_value(typeof(a)) AS a FROM ${await lake.source(table)} RIGHT JOIN (SELECT 1) ON true`,
    )
    expect(change.rowsWritten).toBe((await lake.rows(`FROM ${await lake.source(table)}`)).length)
    return types
  }

  test.each([
    ["DATE '2026-01-01'", 'DATE', 'NULL::VARCHAR'],
    ['1.5::DECIMAL(9,2)', 'DECIMAL(9,2)', 'NULL::JSON'],
    ['1', 'INTEGER', 'NULL::BIGINT'],
    ["'x'", 'VARCHAR', 'NULL::INTEGER[]'],
    ['[1]', 'INTEGER[]', 'NULL::VARCHAR'],
    ["{'one': 1}", 'STRUCT(one INTEGER)', 'NULL::VARCHAR'],
  ])('%s', async (before, type, empty) => {
    for (const rules of [
      {},
      { uniqueKey: ['id'] },
      { partitionBy: [{ column: 'id', transform: 'identity' }] },
      { partitionBy: [{ column: 'id', transform: 'identity' }], targetFileSize: 1_048_576 },
    ] satisfies Partial<WriteRules>[]) {
      const rows = `SELECT * FROM (VALUES (3, ${empty}), (2, NULL)) t(id, a)`
      expect(await refreshed(before, rows, rules)).toEqual({ id: 'INTEGER', a: type })
      // The key has values of a new type.
      const text = `SELECT 'k' AS id, ${empty} AS a`
      expect(await refreshed(before, text, rules)).toEqual({ id: 'VARCHAR', a: type })
    }
  })

  test('also when the result has no rows', async () => {
    const first = await lake.writeBy(null, "SELECT 1 AS id, DATE '2026-01-01' AS a, 1.5 AS b", {})
    const { table } = await lake.writeBy(first.table, "SELECT '' AS id, '' AS a, '' AS c WHERE false", {
      partitionBy: [{ column: 'a', transform: 'day' }],
    })
    expect(await lake.describe(`FROM ${await lake.source(table)}`)).toEqual([
      { name: 'id', type: 'INTEGER' },
      { name: 'a', type: 'DATE' },
      { name: 'c', type: 'VARCHAR' },
    ])
  })

  test('but one value replaces the type', async () => {
    const rows = "SELECT * FROM (VALUES (1, NULL), (2, 'x')) t(id, a)"
    expect(await refreshed('1', rows)).toEqual({ id: 'INTEGER', a: 'VARCHAR' })
  })
})

describe('a column without values fits every type', () => {
  test.each([
    ['1', 'NULL::VARCHAR', null],
    ["DATE '2024-01-01'", 'NULL::JSON', null],
    ["{'one': 1}", 'NULL::JSON', null],
    ["{'one': 1}", 'MAP()::MAP(VARCHAR, JSON)', "{'one': NULL}"],
    ["{'one': 1}", "{'one': NULL::JSON}", "{'one': NULL}"],
    ["{'one': {'two': 1}}", "{'one': MAP()::MAP(VARCHAR, JSON)}", "{'one': {'two': NULL}}"],
    ["{'one': [1]}", "{'one': []::JSON[]}", "{'one': []}"],
    ['[1]', '[]::JSON[]', '[]'],
    ['[1]', '[NULL]::JSON[]', '[NULL]'],
    ["[{'x': 1}]", '[MAP()::MAP(VARCHAR, JSON)]', "[{'x': NULL}]"],
    ['MAP {1: 2}', 'MAP()::MAP(VARCHAR, JSON)', '{}'],
    ["MAP {'k': 2}", "MAP {'k': NULL::JSON}", '{k=NULL}'],
    ["TIMESTAMPTZ '2024-01-01'", 'NULL::TIMESTAMP', null],
    ["'a'", 'NULL::BIGINT', null],
  ])('%s gets %s', async (before, after, value) => {
    for (const rules of STRATEGIES) {
      const [row] = await written(before, after, rules)
      expect(row?.[1] ?? null).toBe(value)
    }
  })

  test('a result without rows never fails by its types', async () => {
    const first = await lake.writeBy(null, "SELECT 1 AS id, {'x': 1} AS a", APPEND)
    for (const rules of STRATEGIES) {
      const { change } = await lake.writeBy(first.table, "SELECT 'x' AS id, 'y' AS a WHERE false", rules)
      expect([change.operation, change.rowsWritten]).toEqual([null, 0])
    }
  })
})

test('a key column that the table lacks fails the write', async () => {
  const first = await lake.writeBy(null, 'SELECT 1 AS id, 2 AS n', APPEND)
  for (const [rules, key] of [
    [{ mergeStrategy: 'incremental', uniqueKey: ['id', 'Code'] }, 'unique_key'],
    [{ mergeStrategy: 'delete_insert', uniqueKey: ['Code'] }, 'unique_key'],
    [{ mergeStrategy: 'scd2', uniqueKey: ['Code'] }, 'unique_key'],
    [{ mergeStrategy: 'snapshot', partitionColumn: 'code' }, 'partition_column'],
  ] satisfies [Partial<WriteRules>, string][])
    await expect(lake.writeBy(first.table, 'SELECT 1 AS ID, \'a\' AS "Code"', rules)).rejects.toThrow(
      `${key}: the table has no column "Code", it has id, n: choose one of these, or use full_refresh to replace the table`,
    )
})
