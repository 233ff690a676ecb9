import { describe, expect, test } from 'bun:test'
import { catalogOf, quoteNamespaces, tableOf, writtenName } from './names.ts'

describe('a namespace before a layer becomes a quoted name', () => {
  test.each([
    ['FROM default.silver.flights', 'FROM "default".silver.flights'],
    ['from DEFAULT.Silver.flights', 'from "default".Silver.flights'],
    [
      'SELECT default.silver.f.a FROM default . silver . f',
      'SELECT "default".silver.f.a FROM "default" . silver . f',
    ],
    ['FROM default/* a */.-- b\nsilver.f', 'FROM "default"/* a */.-- b\nsilver.f'],
    ['FROM default."silver".f', 'FROM "default"."silver".f'],
    ['FROM ops.gold.a JOIN order.gold.b', 'FROM "ops".gold.a JOIN "order".gold.b'],
    // Names that the engine reserves.
    ['FROM temp.bronze.a, "gold".gold.b', 'FROM "temp_".bronze.a, "gold_".gold.b'],
  ])('%s', (sql, expected) => expect(quoteNamespaces(sql)).toBe(expected))
})

describe('text without a namespace before a layer stays unchanged', () => {
  test.each([
    'SELECT 1',
    'FROM silver.flights',
    'FROM "default".silver.flights',
    "SELECT 'default.silver.f', E'\\'default.silver.f'",
    'SELECT $$default.silver.f$$, $a$ $$ default.silver.f $a$',
    'SELECT "default.silver.f" FROM silver.f',
    'SELECT "a""default".silver',
    '-- default.silver.f\nSELECT 1',
    '/* /* */ default.silver.f */ SELECT 1',
    'SELECT x.default.silver.f FROM silver.x',
    'WITH gold AS (SELECT 1 AS silver) SELECT gold.silver FROM gold',
    'FROM system.information_schema.tables',
    "SELECT 'it is not closed default.silver.f",
    '/* nor is this default.silver.f',
    'SELECT $tag$ nor this default.silver.f',
  ])('%s', (sql) => expect(quoteNamespaces(sql)).toBe(sql))
})

describe('references to tables', () => {
  const meaning = (catalog: string, schema: string, name: string) =>
    tableOf({ catalog, schema, name }, 'default')

  test("a name without a namespace uses the request's namespace, in any case", () => {
    expect(meaning('', 'Gold', 'Routes')).toEqual({ namespace: 'default', layer: 'gold', name: 'routes' })
    expect(meaning('OPS', 'gold', 'routes')).toEqual({ namespace: 'ops', layer: 'gold', name: 'routes' })
  })

  test('namespaces with names that the engine reserves can be resolved', () => {
    for (const namespace of ['temp', 'system', 'main', 'memory', 'gold'])
      expect(meaning(catalogOf(namespace), 'gold', 'a')?.namespace).toBe(namespace)
    expect(writtenName({ catalog: 'gold_', schema: 'gold', name: 'a' })).toBe('gold.gold.a')
  })

  test('a reference without a layer names no table', () => {
    expect(meaning('', '', 'flights')).toBeNull()
    expect(meaning('', 'main', 'flights')).toBeNull()
    expect(meaning('', 'default', 'flights')).toBeNull()
  })
})
