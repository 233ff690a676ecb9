import { describe, expect, test } from 'bun:test'
import { columnsOf, mentionsIn } from './completion.ts'

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
    ['select 1', []],
  ])('%s', (text, expected) => {
    expect(mentioned(text)).toEqual(expected)
  })
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
