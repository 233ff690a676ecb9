import { describe, expect, test } from 'bun:test'
import { columnsOf, mentionsIn, quoted, UNFINISHED } from './completion.ts'

const mentioned = (text: string) =>
  mentionsIn(text, 'own').map(({ table, alias }) => (alias === '' ? table : `${table} ${alias}`))

describe('tables in a text', () => {
  test.each([
    ["select * from {{ ref('silver.orders') }}", ['own.silver.orders']],
    [
      'from {{ ref(\'silver.orders\') }} o join {{ref("far.gold.x")}} as x',
      ['own.silver.orders o', 'far.gold.x x'],
    ],
    ["from {{ ref('silver.orders') }} where a > 1", ['own.silver.orders']],
    ['sql(f"select * from {ref(\'bronze.raw\')} r")', ['own.bronze.raw r']],
    ["ref('silver.orders", ['own.silver.orders']],
    ['select * from silver.orders', ['own.silver.orders']],
    ['from far.gold.totals t, bronze.raw as r', ['far.gold.totals t', 'own.bronze.raw r']],
    ['from "my-ns".gold."a-b" LEFT JOIN gold.c USING (id)', ['my-ns.gold.a-b', 'own.gold.c']],
    [
      'select o.amount from silver.orders o join silver.orders p',
      ['own.silver.orders o', 'own.silver.orders p'],
    ],
    ['select silver.a from silver.b--note', ['own.silver.a', 'own.silver.b']],
    ['-- reads silver.x y\nfrom gold.c\nselect 1', ['own.gold.c']],
    ['select 1', []],
  ])('%s', (text, expected) => {
    expect(mentioned(text)).toEqual(expected)
  })
})

test('a hostile text takes no long time', () => {
  const started = performance.now()
  for (const part of ['a-', '"a', 'gold.', "gold.a') ", 'silver.a ']) mentionsIn(part.repeat(100_000), 'own')
  expect(performance.now() - started).toBeLessThan(5_000)
})

test.each([
  ["select * from {{ ref('silver.or", "ref('silver.or"],
  ['select sum(u.am', 'u.am'],
  ['from "my-na', '"my-na'],
  ['from "my-ns".gold."a-b', '"my-ns".gold."a-b'],
  ['select a-b.c', 'b.c'],
])('%s is completed from %s', (line, expected) => {
  expect(new RegExp(`(?:${UNFINISHED.source})$`).exec(line)?.[0]).toBe(expected)
})

test('names with other characters are quoted', () => {
  expect(['amount', 'Amount', 'my col', 'a"b', '1st'].map(quoted)).toEqual([
    'amount',
    'Amount',
    '"my col"',
    '"a""b"',
    '"1st"',
  ])
})

test('columns complete with and without an alias, once for each name', () => {
  const tables = [
    { namespace: 'own', layer: 'silver', name: 'orders', columns: [{ name: 'id' }, { name: 'amount' }] },
    { namespace: 'own', layer: 'gold', name: 'totals', columns: [{ name: 'id' }] },
    { namespace: 'own', layer: 'gold', name: 'other', columns: [{ name: 'hidden' }] },
  ]
  const mentions = mentionsIn('from silver.orders o join gold.totals using (id) join gold.gone', 'own')
  expect(columnsOf(mentions, tables).map(({ label }) => label)).toEqual(['id', 'o.id', 'amount', 'o.amount'])
})
