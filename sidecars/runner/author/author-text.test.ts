import { expect, setDefaultTimeout, test } from 'bun:test'
import { splitStatements } from '../../../lake/engine/statement.ts'
import { tokensOf } from '../../../lake/engine/tokens.ts'
import { readAnnotations } from '../../../lake/pipeline/annotations.ts'
import { parseTest } from '../../../lake/pipeline/quality.ts'
import { literalsOf, pythonReferences, sqlReferences } from '../../../lake/pipeline/references.ts'
import { keysIn, partialNamesIn } from '../../../lake/pipeline/view-sql.ts'
import { Misplaced, renderValue, type SqlDialect } from '../../../lake/pipeline/watermark-sql.ts'
import { refusalOfQuery, relationOf } from '../../spark/query-check.ts'
import { renderPlain } from '../engine/rendering.ts'
import { csvFault } from '../readers/csv-fault.ts'
import { jsonFault } from '../readers/json-fault.ts'

// Every scanner of a text that an author writes takes time in proportion to the text. A linear scanner needs some 10 ms of CPU for
// these texts, a quadratic one seconds.
setDefaultTimeout(120_000)
const CHARACTERS = 100_000
const CPU_MS_MAX = 500

const SCANNERS: Record<string, (text: string) => unknown> = {
  tokensOf,
  splitStatements,
  sqlReferences,
  literalsOf,
  pythonReferences,
  keysIn,
  partialNamesIn,
  refusalOfQuery,
  relationOf,
  csvFault,
  jsonFault: (text) => jsonFault(`Invalid Input Error: JSON transform error in file "a", in line 1: ${text}`),
  readAnnotations: (text) => [readAnnotations(text, '--'), readAnnotations(`-- @a: ${text}`, '--')],
  renderPlain: (text) =>
    renderPlain({ file: 'a', source: text.slice(0, 100_000) }, VARIABLES, {
      ref: (name) => name,
      landingZone: (name) => name,
    }),
  renderValue: (text) => [placed(text, 'duckdb'), placed(text, 'spark')],
  parseTest: (text) => parseTest('a', { path: 'tests/quality/a.sql', text: `-- @tags: ${text}` }),
}

const VARIABLES = {
  strategy: 'incremental',
  this: 'a',
  runStartedAt: '2024-01-01T00:00:00Z',
  watermarkValue: null,
} as const

/** Puts a watermark between two copies of a text. */
function placed(text: string, dialect: SqlDialect): string {
  try {
    return renderValue({ value: '2024-01-01', type: 'DATE', dialect }, text, (value) => text + value + text)
  } catch (error) {
    if (!(error instanceof Misplaced)) throw error
    return error.message
  }
}

/** Pieces whose repetition makes a scanner that goes back start again and again. */
const PIECES = [
  ...["'", '"', '`', "''", '""', "'\\", '"\\', '\\', "E'", "e'\\'", "r'", '\'"', '$', '$a', '$a$', '$$a'],
  ...[
    '--',
    '-- \r',
    '/*',
    '*/',
    '/* */',
    '/*/',
    '\n',
    '\r',
    ' ',
    '\t\n',
    ';',
    ' ;',
    '; ',
    '.',
    'a.',
    'a.b.c ',
  ],
  ...[
    '{{',
    '}}',
    '{%',
    '%}',
    '{#',
    '{% raw %}',
    '{% ',
    '{%- raw',
    "{{ '",
    '{{ ref(',
    "{{ ref('",
    'ref',
    'ref (',
  ],
  ...[
    'ref(',
    "ref('",
    'ref("a" ',
    'landing_zone   ',
    'f"{',
    "f'{f'{",
    'f"""{',
    '"""',
    "'''",
    '{',
    '}',
    '(',
    ')',
    '[',
  ],
  ...[
    '@',
    '@a:',
    ',',
    'a,',
    'a:b,',
    'a:b(',
    '"a":',
    '"a" ',
    'a',
    '1',
    'é',
    '𝒳',
    '\u00a0',
    '\u2028',
    '\0',
    '\ud800',
  ],
  'Error when converting column "a". Could not convert string "',
  'CSV Error on Line: 1\n',
  'Original Line: ',
  'using ',
  'reflect ',
]

for (const [name, scan] of Object.entries(SCANNERS))
  test(`${name} reads each text in time in proportion to its length`, () => {
    const slow: string[] = []
    for (const [index, piece] of PIECES.entries()) {
      const text = piece.repeat(Math.ceil(CHARACTERS / piece.length))
      const whole = [text, `x${text}'`, `'${text}`, `{{ ${text}`][index % 4] ?? text
      const before = process.cpuUsage()
      scan(whole)
      const { user, system } = process.cpuUsage(before)
      const cpuMs = (user + system) / 1_000
      if (cpuMs > CPU_MS_MAX) slow.push(`${JSON.stringify(whole.slice(0, 20))}: ${cpuMs} ms`)
    }
    expect(slow).toEqual([])
  })
