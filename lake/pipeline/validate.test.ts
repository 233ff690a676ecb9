import { expect, test } from 'bun:test'
import { collectTemplate } from './template.ts'
import { type Collect, type PublishInput, validatePublish } from './validate.ts'

const collect: Collect = async (...given) => collectTemplate(...given)

const flights = { namespace: 'default', layer: 'silver', name: 'flights', type: 'sql' } as const
const known = { tables: new Set(['default.bronze.flights', 'ops.gold.routes']), zones: new Set(['raw']) }

const publish = (files: Record<string, string>, rest: Partial<PublishInput> = {}) =>
  validatePublish(
    {
      pipeline: flights,
      files: Object.entries(files).map(([path, text]) => ({ path, text })),
      known,
      ...rest,
    },
    collect,
  )

test('reports nothing for a valid pipeline', async () => {
  expect(
    await publish({
      'pipeline.sql': "-- @max_retries: 2\nSELECT * FROM {{ ref('bronze.flights') }}",
      'config.yaml': 'merge_strategy: append_only',
      'tests/quality/some.sql':
        "-- @severity: warn\nSELECT count(*) FROM {{ ref('silver.flights') }}, {{ this }}",
      'README.md': "ref('a')",
    }),
  ).toEqual({
    valid: true,
    files: ['pipeline.sql', 'config.yaml', 'tests/quality/some.sql', 'README.md'].map((path) => ({
      path,
      valid: true,
      errors: [],
      warnings: [],
    })),
  })
})

test('reports bad configuration as an error of its file', async () => {
  const { valid, files } = await publish({
    'pipeline.sql': '-- @max_retries: x\nSELECT 1',
    'config.yaml': 'merge_strategy: upsert\nmaterialised: table',
    'tests/quality/a.sql': '-- @severity: bad\nSELECT 0',
  })
  expect(valid).toBe(false)
  expect(files.map(({ errors }) => errors)).toEqual([
    ['line 1: max_retries: must be a whole number from 0 to 100, not "x"'],
    [
      'line 1: merge_strategy: must be one of full_refresh, append_only, incremental, delete_insert, scd2, snapshot, not "upsert"',
    ],
    ['line 1: severity: must be error or warn, not "bad"'],
  ])
  expect(files[1]?.warnings).toEqual(['line 2: unknown key "materialised" is ignored'])
})

test('reports template errors of pipelines and quality tests', async () => {
  const { valid, files } = await publish({
    'pipeline.sql': 'SELECT {{ nope }}',
    'tests/quality/a.sql': '{% if %}',
  })
  expect(valid).toBe(false)
  expect(files[0]?.errors).toEqual(['line 1 column 11: "nope" is undefined'])
  expect(files[1]?.errors[0]).toStartWith('line 1 column 7: syntax error')
})

test('reports invalid names as errors', async () => {
  const { files } = await publish({
    'pipeline.sql': "SELECT * FROM {{ ref('flights') }}, '{{ landing_zone('Raw') }}'",
  })
  expect(files[0]?.errors).toEqual([
    `line 1 column 18: "flights" is not a table name: write 'layer.name' or 'namespace.layer.name'`,
    'line 1 column 41: "Raw" cannot be the name of a landing zone: lowercase letters, digits and hyphens',
  ])
})

test('reads a Python pipeline without template syntax', async () => {
  const source = { 'pipeline.py': 'result = [{"a": "{{ b }}"}]' }
  const python = await publish(source, { pipeline: { ...flights, type: 'python' } })
  expect(python).toEqual({
    valid: true,
    files: [{ path: 'pipeline.py', valid: true, errors: [], warnings: [] }],
  })
})

test("requires the source file of the pipeline's type", async () => {
  expect(await publish({ 'pipeline.py': 'result = []' })).toMatchObject({
    valid: false,
    files: [
      { path: 'pipeline.py' },
      { path: 'pipeline.sql', errors: ['a sql pipeline needs the file pipeline.sql'] },
    ],
  })
})

test('warns about bare calls, unknown tables and unknown zones', async () => {
  const { valid, files } = await publish({
    'pipeline.sql': `SELECT * FROM ref('bronze.flights'), {{ ref('bronze.nope') }}, {{ ref('ops.gold.routes') }},
  read_csv_auto('{{ landing_zone('raw') }}'), read_csv_auto('{{ landing_zone('gone') }}')`,
  })
  expect(valid).toBe(true)
  expect(files[0]?.warnings).toEqual([
    'line 1 column 15: ref( is outside of {{ }}: the template does not evaluate it',
    'line 1 column 41: there is no table "bronze.nope"',
    'line 2 column 65: there is no landing zone "gone"',
  ])
})

test('gives no warnings about unknown names without known tables', async () => {
  const { files } = await publish({ 'pipeline.sql': "{{ ref('bronze.nope') }}" }, { known: undefined })
  expect(files[0]?.warnings).toEqual([])
})

test('warns about a cycle and shows its path', async () => {
  const sources = new Map([
    ['default.gold.a', ['default.bronze.x', 'default.gold.b']],
    ['default.gold.b', ['default.silver.flights', 'default.gold.a']],
  ])
  const { valid, files } = await publish(
    { 'pipeline.sql': "SELECT * FROM {{ ref('gold.a') }}" },
    { known: undefined, sources },
  )
  expect(valid).toBe(true)
  expect(files[0]?.warnings).toEqual([
    'the pipeline reads its own table: default.silver.flights <- default.gold.a <- default.gold.b <- default.silver.flights',
  ])
  expect((await publish({ 'pipeline.sql': "{{ ref('silver.flights') }}" })).files[0]?.warnings).toEqual([
    'the pipeline reads its own table: default.silver.flights <- default.silver.flights',
  ])
})

test('all templates together have a limit of work', async () => {
  const slow = '{% for i in range(1000) %}{% set a = range(10000)|map("string")|list %}{% endfor %}'
  const tests = Array.from({ length: 8 }, (_, index) => [`tests/quality/t${index}.sql`, slow])
  const { files } = await publish({ 'pipeline.sql': 'SELECT 1', ...Object.fromEntries(tests) })
  const errors = files.slice(1).map((file) => file.errors[0])
  expect(errors.slice(0, 3)).toEqual(Array(3).fill('the template takes too long: simplify its loops'))
  expect(errors.slice(3)).toEqual(
    Array(5).fill('the templates of the pipeline take too long together: simplify their loops'),
  )
})
