import { describe, expect, test } from 'bun:test'
import { parseConfig } from '../../../lake/pipeline/config.ts'
import { GROUPS, stateOf, withText } from './config-fields.ts'

const SOURCE = { path: 'pipeline.sql', text: '-- @priority: 7\nselect 1' }
const fieldOf = (text: string, key: string) => stateOf(text, SOURCE).fields.get(key)

test('the form has a field for every key of the configuration', () => {
  const keys = GROUPS.flatMap(({ fields }) => fields.map(({ key }) => key))
  const known = Object.keys(parseConfig({}).config).map((name) =>
    name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
  )
  expect(keys.toSorted()).toEqual(known.toSorted())
})

describe('reading', () => {
  test('a field shows its text, its default, its fault and its override', () => {
    const text = 'memory: 1\ntags: [a, b]\npartition_by:\n  - {column: ts, transform: day}\n  - column: r\n'
    expect(fieldOf(text, 'memory')).toEqual({
      text: '1',
      fallback: '',
      problem: 'memory: must be a size such as 512MB or 16GB, not 1',
      overriddenBy: null,
    })
    expect(fieldOf(text, 'tags')?.text).toBe('a, b')
    expect(fieldOf(text, 'partition_by')?.text).toBe('day(ts), r')
    expect(fieldOf(text, 'merge_strategy')).toMatchObject({ text: '', fallback: 'full_refresh' })
    expect(fieldOf(text, 'priority')?.overriddenBy).toBe('7')
  })

  test('a missing key is a fault of its field', () => {
    expect(fieldOf('merge_strategy: scd2', 'unique_key')?.problem).toBe(
      'merge_strategy scd2 needs unique_key',
    )
  })

  test.each([
    ['a: [', 'not valid YAML'],
    ['- a', 'must be a YAML mapping'],
  ])('%j cannot be shown as a form', (text, why) => {
    expect(stateOf(text, SOURCE).fault).toContain(why)
  })

  test('an unknown key is a warning beside the form', () => {
    expect(stateOf('owner: me', SOURCE).others).toEqual(['unknown key "owner" is ignored'])
  })
})

describe('writing', () => {
  test.each([
    ['', 'merge_strategy', 'incremental', 'merge_strategy: incremental\n'],
    ['', 'unique_key', 'id, day', 'unique_key: [id, day]\n'],
    [
      '',
      'partition_by',
      'day(ts), region',
      'partition_by: [{column: ts, transform: day}, {column: region, transform: identity}]\n',
    ],
    ['', 'priority', '-5', 'priority: -5\n'],
    ['', 'priority', 'high', 'priority: high\n'],
    ['', 'archive_landing_zones', 'true', 'archive_landing_zones: true\n'],
    ['', 'description', 'yes: it is', 'description: "yes: it is"\n'],
    [
      '# why\nmemory: 1GB # enough\nengine: duckdb\n',
      'memory',
      '2GB',
      '# why\nmemory: 2GB # enough\nengine: duckdb\n',
    ],
    ['memory: 1GB\n', 'memory', ' ', ''],
    ['memory: 1GB\npriority: 1\n', 'memory', '', 'priority: 1\n'],
  ])('%j with %s set to %j', (file, key, text, expected) => {
    expect(withText(file, key, text)).toBe(expected)
  })

  test('a field reads the value that it wrote', () => {
    for (const [key, text] of [
      ['unique_key', 'a, "b c"'],
      ['partition_by', 'month(a), b'],
      ['description', '# no comment'],
      ['keep_failed_hours', '0.5'],
      ['target_file_size', '64MB'],
    ] as const)
      expect(fieldOf(withText('', key, text), key)?.text).toBe(text)
  })
})
