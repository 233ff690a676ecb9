import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { MERGE_STRATEGIES, parseConfig, problemText } from './config.ts'

const yaml = (text: string) => parseConfig({ config: { path: 'config.yaml', text } })
const header = (text: string) => parseConfig({ source: { path: 'pipeline.sql', text } })
const errorsOf = (text: string) => yaml(text).errors.map(problemText)

describe('reading a configuration', () => {
  test('returns the defaults without settings', () => {
    const nothing = parseConfig({})
    expect(nothing).toEqual({
      config: {
        description: '',
        materialized: 'table',
        mergeStrategy: 'full_refresh',
        uniqueKey: [],
        watermarkColumn: '',
        partitionColumn: '',
        partitionBy: [],
        targetFileSize: null,
        onSchemaChange: 'add',
        archiveLandingZones: false,
        scdValidFrom: 'valid_from',
        scdValidTo: 'valid_to',
        maxRetries: 0,
        retryDelaySeconds: 30,
        keepFailedHours: 0,
        merge: 'auto',
        reviewTimeoutHours: 72,
        reviewers: 'any',
        engine: 'duckdb',
        runsOn: [],
        memory: null,
        priority: 0,
        tags: [],
      },
      errors: [],
      warnings: [],
    })
    for (const empty of ['', '# only a comment\n', '---\n', 'description:\nunique_key:\n'])
      expect(yaml(empty)).toEqual(nothing)
  })

  test('reads every key from config.yaml', () => {
    const { config, errors, warnings } = yaml(`
description: Flights, cleaned
materialized: table
merge_strategy: scd2
unique_key: [id, leg]
watermark_column: updated_at
partition_column: day
partition_by:
  - {column: ts, transform: month}
  - column: region
target_file_size: 32 MB
on_schema_change: ignore
archive_landing_zones: true
scd_valid_from: from
scd_valid_to: to
max_retries: 3
retry_delay_seconds: 5
keep_failed_hours: 0.5
merge: review
review_timeout_hours: 4
reviewers: four-eyes
engine: spark
runs_on: [gpu, eu]
memory: 16GB
priority: -5
tags: [nightly, Finance]
`)
    expect([errors, warnings]).toEqual([[], []])
    expect(config).toEqual({
      description: 'Flights, cleaned',
      materialized: 'table',
      mergeStrategy: 'scd2',
      uniqueKey: ['id', 'leg'],
      watermarkColumn: 'updated_at',
      partitionColumn: 'day',
      partitionBy: [
        { column: 'ts', transform: 'month' },
        { column: 'region', transform: 'identity' },
      ],
      targetFileSize: 33_554_432,
      onSchemaChange: 'ignore',
      archiveLandingZones: true,
      scdValidFrom: 'from',
      scdValidTo: 'to',
      maxRetries: 3,
      retryDelaySeconds: 5,
      keepFailedHours: 0.5,
      merge: 'review',
      reviewTimeoutHours: 4,
      reviewers: 'four-eyes',
      engine: 'spark',
      runsOn: ['gpu', 'eu'],
      memory: 17_179_869_184,
      priority: -5,
      tags: ['nightly', 'Finance'],
    })
  })

  test('reads every key from annotations', () => {
    const { config, errors } = header(`-- A pipeline.
-- @description: joins: flights and airports
--@merge_strategy: delete_insert
-- @Unique_Key: id, leg ,
-- @partition_by: [{column: ts, transform: day}]
-- @archive_landing_zones: true

-- @max_retries: 2
-- @runs_on: gpu, eu
-- @memory: 512 MB
-- @priority: -1
SELECT 1
-- @retry_delay_seconds: 99
`)
    expect(errors).toEqual([])
    expect(config).toMatchObject({
      description: 'joins: flights and airports',
      mergeStrategy: 'delete_insert',
      uniqueKey: ['id', 'leg'],
      partitionBy: [{ column: 'ts', transform: 'day' }],
      archiveLandingZones: true,
      maxRetries: 2,
      retryDelaySeconds: 30,
      merge: 'auto',
      reviewTimeoutHours: 72,
      reviewers: 'any',
      engine: 'duckdb',
      runsOn: ['gpu', 'eu'],
      memory: 536_870_912,
      priority: -1,
    })
  })

  test('reads a YAML list in an annotation', () => {
    expect(header('-- @unique_key: [a, "b c"]\nselect 1').config.uniqueKey).toEqual(['a', 'b c'])
  })

  test('overrides config.yaml by annotations key by key', () => {
    const { config } = parseConfig({
      config: { path: 'config.yaml', text: 'merge_strategy: append_only\nmax_retries: 4' },
      source: { path: 'pipeline.py', text: '# @merge_strategy: full_refresh\nresult = 1' },
    })
    expect(config).toMatchObject({ mergeStrategy: 'full_refresh', maxRetries: 4 })
  })

  test('ignores Windows line ends and a byte order mark', () => {
    expect(header('\uFEFF-- @max_retries: 7\r\nSELECT 1\r\n').config.maxRetries).toBe(7)
  })
})

describe('problems of a configuration', () => {
  test('warns about an unknown key with its line', () => {
    const { warnings, errors } = yaml('description: a\nmerge_stratgy: full_refresh')
    expect(errors).toEqual([])
    expect(warnings.map(problemText)).toEqual(['config.yaml line 2: unknown key "merge_stratgy" is ignored'])
    expect(header('-- @toString: 1\nselect 1').warnings).toHaveLength(1)
    expect(yaml('__proto__: 1').warnings).toHaveLength(1)
  })

  test('warns about settings of a review that the pipeline does not have', () => {
    expect(yaml('reviewers: four-eyes\nreview_timeout_hours: 4').warnings.map(problemText)).toEqual([
      'config.yaml line 1: reviewers has no effect without merge: review',
      'config.yaml line 2: review_timeout_hours has no effect without merge: review',
    ])
    expect(yaml('reviewers: four-eyes\nmerge: review').warnings).toEqual([])
  })

  test.each([
    ['merge: manual', 'merge: must be one of auto, review, not "manual"'],
    ['review_timeout_hours: 0', 'review_timeout_hours: must be a whole number from 1 to 8760, not 0'],
    ['reviewers: two', 'reviewers: must be one of any, four-eyes, not "two"'],
    ['merge_strategy: upsert', 'merge_strategy: must be one of full_refresh, append_only, incremental, '],
    ['max_retries: many', 'max_retries: must be a whole number from 0 to 100, not "many"'],
    ['max_retries: 1.5', 'max_retries: must be a whole number from 0 to 100, not 1.5'],
    ['retry_delay_seconds: -1', 'retry_delay_seconds: must be a whole number from 0 to 86400, not -1'],
    ['keep_failed_hours: -1', 'keep_failed_hours: must be a number from 0 to 8760, not -1'],
    ['keep_failed_hours: 8761', 'keep_failed_hours: must be a number from 0 to 8760, not 8761'],
    ['keep_failed_hours: 1d', 'keep_failed_hours: must be a number from 0 to 8760, not "1d"'],
    ['keep_failed_hours: .inf', 'keep_failed_hours: must be a number from 0 to 8760, not '],
    ['keep_failed_hours: .nan', 'keep_failed_hours: must be a number from 0 to 8760, not '],
    ['keep_failed_hours: [1]', 'keep_failed_hours: must be a number from 0 to 8760, not [1]'],
    ['keep_failed_hours: true', 'keep_failed_hours: must be a number from 0 to 8760, not true'],
    ['archive_landing_zones: "yes"', 'archive_landing_zones: must be true or false, not "yes"'],
    ['description: [a]', 'description: must be text, not ["a"]'],
    ['unique_key: {a: 1}', 'unique_key: must be a list of columns, not {"a":1}'],
    ['unique_key: [a, a]', 'unique_key: names "a" twice'],
    ['unique_key: [id, ID]', 'unique_key: names "ID" twice'],
    ['unique_key: [1]', 'unique_key: must be the name of a column, not 1'],
    ['scd_valid_to: ""', 'scd_valid_to: must be the name of a column, not ""'],
    ['partition_by: ts', 'partition_by: must be a list of {column, transform}, not "ts"'],
    [
      'partition_by: [{column: a, transform: week}]',
      'partition_by: the transform must be one of identity, year, month, day, hour, not {"column":"a","transform":"week"}',
    ],
    ['partition_by: "[*x]"', 'partition_by: must be a list of {column, transform}'],
    ['on_schema_change: append', 'on_schema_change: must be one of add, fail, ignore, not "append"'],
    ['on_schema_change: true', 'on_schema_change: must be one of add, fail, ignore, not true'],
    ['target_file_size: 128', 'target_file_size: must be a size from 1MB to 512MB, not 128'],
    ['target_file_size: 0MB', 'target_file_size: must be a size from 1MB to 512MB, not "0MB"'],
    ['target_file_size: 513MB', 'target_file_size: must be a size from 1MB to 512MB, not "513MB"'],
    ['target_file_size: 1GB', 'target_file_size: must be a size from 1MB to 512MB, not "1GB"'],
    ['runs_on: [GPU]', 'runs_on: must be labels that match ^[a-z0-9][a-z0-9._-]{0,62}$, not "GPU"'],
    ['runs_on: {a: 1}', 'runs_on: must be a list of at most 16 labels, not {"a":1}'],
    ['tags: [a b]', 'tags: must be tags that match ^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$, not "a b"'],
    ['memory: 16', 'memory: must be a size such as 512MB or 16GB, not 16'],
    ['memory: 1MB', 'memory: must be a size such as 512MB or 16GB, not "1MB"'],
    ['priority: 101', 'priority: must be a whole number from -100 to 100, not 101'],
    ['priority: high', 'priority: must be a whole number from -100 to 100, not "high"'],
    ['materialized: index', 'materialized: must be one of table, view, not "index"'],
  ])('refuses %s', (line, message) => {
    const errors = errorsOf(line)
    expect(errors).toHaveLength(1)
    expect(errors[0]).toStartWith(`config.yaml line 1: ${message}`)
  })

  test('refuses keys about rows and Python beside a view', () => {
    expect(errorsOf('materialized: view\nmerge_strategy: full_refresh')).toEqual([])
    const keys = [
      'watermark_column: a',
      'partition_column: a',
      'partition_by: [{column: a}]',
      'unique_key: a',
    ]
    keys.push('archive_landing_zones: true', 'target_file_size: 64MB', 'on_schema_change: fail')
    for (const line of [...keys, 'merge_strategy: append_only'])
      expect(errorsOf(`materialized: view\n${line}`)).toEqual([
        `config.yaml line 2: ${line.split(':')[0]} cannot be used with materialized: view, because a view stores no rows`,
      ])
    const source = { path: 'pipeline.py', text: '# @materialized: view\nresult = []' }
    expect(parseConfig({ source }).errors.map(problemText)).toEqual([
      'pipeline.py line 1: materialized: view needs a pipeline of type sql, not python',
    ])
  })

  test('names the missing key that a strategy requires', () => {
    for (const strategy of ['incremental', 'delete_insert', 'scd2'])
      expect(errorsOf(`merge_strategy: ${strategy}`)).toEqual([
        `config.yaml line 1: merge_strategy ${strategy} needs unique_key`,
      ])
    expect(header('\n-- @merge_strategy: snapshot').errors).toEqual([
      {
        file: 'pipeline.sql',
        line: 2,
        key: 'partition_column',
        message: 'merge_strategy snapshot needs partition_column',
      },
    ])
    expect(errorsOf('merge_strategy: incremental\nunique_key: id')).toEqual([])
  })

  test.each([
    ['an open bracket', 'a: [1\nb: 2', 'not valid YAML'],
    ['a key twice', 'a: 1\na: 2', 'not valid YAML'],
    ['two documents', 'a: 1\n---\nb: 2', 'more than one YAML document: --- is allowed only at its beginning'],
    ['many aliases', `a: &a x\nb: [${'*a,'.repeat(11)}]`, 'not valid YAML: more than 10 aliases'],
    ['deep brackets', `a: ${'['.repeat(30_000)}`, 'not valid YAML'],
    ['text', 'just text', 'must be a YAML mapping'],
    ['a list', '- a\n- b', 'must be a YAML mapping'],
    ['70 kB', `description: ${'x'.repeat(70_000)}`, 'larger than 65536 bytes'],
    [
      'an unknown alias',
      'description: *nobody',
      'a YAML alias is unknown, or the file uses more than 10 aliases',
    ],
  ])('reports one error for an unreadable file: %s', (_, text, message) => {
    const errors = errorsOf(text)
    expect(errors).toHaveLength(1)
    expect(errors[0]).toContain(message)
  })

  test('never throws, and describes every problem briefly', () => {
    const keys = ['merge_strategy', 'unique_key', 'partition_by', 'max_retries', 'description', 'other']
    const line = fc.tuple(fc.constantFrom(...keys), fc.string()).map(([key, value]) => `${key}: ${value}`)
    fc.assert(
      fc.property(fc.array(line, { maxLength: 6 }), (lines) => {
        for (const { config, errors, warnings } of [
          yaml(lines.join('\n')),
          header(lines.map((text) => `-- @${text}`).join('\n')),
        ]) {
          expect(MERGE_STRATEGIES).toContain(config.mergeStrategy)
          for (const problem of [...errors, ...warnings])
            expect(problemText(problem).length).toBeLessThan(700)
        }
      }),
    )
  })
})

test('refuses the same name for both columns of scd2', () => {
  expect(errorsOf('merge_strategy: scd2\nunique_key: id\nscd_valid_from: at\nscd_valid_to: AT')).toEqual([
    'config.yaml line 4: scd_valid_to: names the same column as scd_valid_from, "AT"',
  ])
})

test('refuses a value that contains itself', () => {
  expect(errorsOf('unique_key: &a [*a]').join()).toContain('a value that contains itself')
  expect(errorsOf('description: &a {b: *a}').join()).toContain('a value that contains itself')
})
