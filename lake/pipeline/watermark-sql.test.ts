import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { useConnection } from '../engine/test-connection.ts'
import { renderTemplate, TemplateError, type TemplateVariables } from './template.ts'

const connection = await useConnection()

type Given = Pick<TemplateVariables, 'watermarkType' | 'dialect'>

const render = (source: string, watermarkValue: string | null, given: Given = {}) =>
  renderTemplate(
    { file: 'pipeline.sql', source },
    {
      strategy: 'incremental',
      this: '"own"',
      runStartedAt: '2026-01-01T00:00:00Z',
      watermarkValue,
      ...given,
    },
    { ref: (name) => `"${name}"`, landingZone: (name) => `landing/${name}/*` },
  )

/** The values of the only row of a rendered SELECT. */
async function row(source: string, value: string) {
  const read = await connection.runAndReadAll(render(source, value))
  return read.getRowsJson()[0]
}

const ATTACK = "z' or true or 'a"

/** Templates whose only value is the watermark, however it gets there. */
const TEXTS = [
  "select '{{ watermark_value }}' as a",
  'select {{ watermark_value }} as a',
  'select ({{watermark_value}}) as a',
  "select E'{{ watermark_value }}' as a",
  "select e'''{{ watermark_value }}'''[2:-2] as a",
  "{% set since = watermark_value %}select '{{ since }}' as a",
  "{% set since = watermark_value or 'never' %}select {{ since }} as a",
  "{% set where %}'{{ watermark_value }}'{% endset %}select {{ where }} as a",
  '{% set where = "\'" ~ watermark_value ~ "\'" %}select {{ where }} as a',
  "{% macro shown(v) %}'{{ v }}'{% endmacro %}select {{ shown(watermark_value) }} as a",
  "{% for v in [watermark_value] %}select '{{ v }}' as a{% endfor %}",
  `select '{{ watermark_value | replace("'", "''") }}' as a`,
  "select '{{ watermark_value[:3] }}{{ watermark_value[3:] }}' as a",
  `select '{{ [watermark_value] | join(",") }}' as a`,
  "select '{{ watermark_value }}' as a -- it's {{ watermark_value }}",
  "select /* ' {{ watermark_value }} /* */ */ '{{ watermark_value }}' as a",
  'select \'{{ watermark_value }}\' as "{{ watermark_value }}"',
  "{% if watermark_value %}select '{{ watermark_value }}' as a{% else %}select 1{% endif %}",
  "select first(a) as a from (select '{{ watermark_value }}' as a) where a = {{ watermark_value }}",
]
const VALUES = [
  ATTACK,
  "'",
  "''",
  '\\',
  "\\'",
  '"',
  '--',
  '*/',
  '$$',
  '; drop table t',
  '0 or true',
  'id',
  '\u{1f600}é\u{f0000}',
]

describe('text is a value wherever it stands', () => {
  test.each(TEXTS)('%s', async (source) => {
    for (const value of VALUES) expect(await row(source, value)).toEqual([value])
  })

  test('for every text', async () => {
    const special = fc.constantFrom(...`'"\\$-/*\n\r a;{}%`)
    const value = fc.string({ unit: special, minLength: 1, maxLength: 8 })
    await fc.assert(
      fc.asyncProperty(value, fc.constantFrom(...TEXTS), async (text, source) => {
        expect(await row(source, text)).toEqual([text])
      }),
    )
  })

  test.each([
    ["select '{{ watermark_value | upper }}' as a", 'abc', 'ABC'],
    ["select '{{ watermark_value | upper }}' as a", "it's", "IT'S"],
    ["select '{{ watermark_value[:10] }}' as a", '2026-01-01 10:00:00', '2026-01-01'],
    ["{% if watermark_value > 'b' %}select '{{ watermark_value }}' as a{% endif %}", 'c', 'c'],
  ])('also when the template computes with it: %s of %s', async (source, value, computed) => {
    expect(await row(source, value)).toEqual([computed])
  })

  test.each([
    ['select {{ watermark_value | upper }} as a', 'true', 'in quotes'],
    [`select '{{ watermark_value | replace("'", "") | upper }}' as a`, ATTACK, 'special characters'],
    ['select $${{ watermark_value }}$$ as a', ATTACK, 'plain quotes'],
    ['select a_{{ watermark_value }} from t', 'b c', 'part of a name'],
    ["select '{{ watermark_value }}' as a", 'a\0b', 'null byte'],
  ])('and %s is refused if it cannot hold the text', (source, value, reason) => {
    expect(() => render(source, value)).toThrow(TemplateError)
    expect(() => render(source, value)).toThrow(reason)
  })
})

describe('a value outside of quotes is a literal of its type', () => {
  test.each([
    ['BIGINT', '5', '5'],
    ['BIGINT', '-5', '(-5)'],
    ['DECIMAL(9,2)', '12.50', '12.50'],
    ['DOUBLE', '1e+20', "CAST('1e+20' AS DOUBLE)"],
    ['DATE', '2026-01-01', "CAST('2026-01-01' AS DATE)"],
    ['TIMESTAMP', '2026-01-01 10:00:00', "CAST('2026-01-01 10:00:00' AS TIMESTAMP)"],
    ['VARCHAR', 'x', "'x'"],
  ])('%s %s', (watermarkType, value, literal) => {
    expect(render('{{ watermark_value }}', value, { watermarkType })).toBe(literal)
  })

  test('and a template may compute with a number', () => {
    const number: Given = { watermarkType: 'BIGINT' }
    expect(render('{{ watermark_value | int - 3 }}, {{ watermark_value }}', '5', number)).toBe('2, 5')
    expect(render('t_{{ watermark_value }}', '5', number)).toBe('t_5')
  })
})

test('none is rendered as a word', () => {
  expect(render("'{{ watermark_value }}' {% if watermark_value %}x{% endif %}", null)).toBe("'none' ")
})

test('Spark SQL escapes by backslashes', () => {
  const spark: Given = { dialect: 'spark' }
  expect(render("'{{ watermark_value }}' {{ watermark_value }}", `a'\\"`, spark)).toBe(
    `'a\\'\\\\\\"' 'a\\'\\\\\\"'`,
  )
  expect(render('`{{ watermark_value }}`', 'a`b', spark)).toBe('`a``b`')
  expect(render('{{ watermark_value }}', ATTACK, spark)).toBe("'z\\' or true or \\'a'")
  const moment: Given = { ...spark, watermarkType: 'TIMESTAMP' }
  expect(render('{{ watermark_value }}', '2026-01-01', moment)).toBe("CAST('2026-01-01' AS TIMESTAMP_NTZ)")
})
