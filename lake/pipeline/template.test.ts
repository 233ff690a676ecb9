import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { MERGE_STRATEGIES } from './config.ts'
import {
  collectTemplate,
  renderTemplate,
  TEMPLATE_LIMITS,
  TemplateError,
  type TemplateResolver,
  type TemplateVariables,
} from './template.ts'

const variables: TemplateVariables = {
  strategy: 'full_refresh',
  this: '"silver"."flights"',
  runStartedAt: '2001-02-03T04:05:06.789Z',
  watermarkValue: null,
}
const resolver: TemplateResolver = {
  ref: (name) => {
    if (name === 'silver.gone') throw new Error('there is no table silver.gone')
    return `<${name}>`
  },
  landingZone: (name) => `/zones/${name}/*`,
}
const render = (source: string, change: Partial<TemplateVariables> = {}) =>
  renderTemplate({ file: 'pipeline.sql', source }, { ...variables, ...change }, resolver)

function errorOf(source: string): TemplateError {
  try {
    render(source)
  } catch (error) {
    if (error instanceof TemplateError) return error
    throw error
  }
  throw new Error(`rendered: ${source}`)
}

describe('variables and functions of a template', () => {
  test('renders ref() as table expression and landing_zone() as path', () => {
    expect(render(`SELECT * FROM {{ ref('bronze.a') }}, read_csv_auto('{{ landing_zone("raw") }}')\n`)).toBe(
      "SELECT * FROM <bronze.a>, read_csv_auto('/zones/raw/*')\n",
    )
  })

  test("renders is_<strategy>() as true only for the run's strategy", () => {
    for (const strategy of MERGE_STRATEGIES)
      expect(
        render(MERGE_STRATEGIES.map((name) => `{{ is_${name}() }}`).join(' '), { strategy }).split(' '),
      ).toEqual(MERGE_STRATEGIES.map((name) => String(name === strategy)))
  })

  test('renders this, run_started_at and watermark_value', () => {
    expect(render('{{ this }} {{ run_started_at }}')).toBe('"silver"."flights" 2001-02-03T04:05:06.789Z')
    const source = `{% if watermark_value %}ts > '{{ watermark_value }}'{% else %}all{% endif %}`
    expect([render(source), render(source, { watermarkValue: '7' })]).toEqual(['all', "ts > '7'"])
    expect(render('{{ watermark_value is none }}')).toBe('true')
  })

  test('renders text without escapes and without trimming', () => {
    expect(render("{{ '<&>' }} a < b\n\n")).toBe('<&> a < b\n\n')
  })
})

describe('collecting names', () => {
  const collect = (source: string, change: Partial<TemplateVariables> = {}) =>
    collectTemplate({ file: 'pipeline.sql', source }, { ...variables, ...change })

  test('collects each name once, only from evaluated branches', () => {
    const source = `{{ ref('bronze.a') }} {{ ref('bronze.a') }} {% set l = 'gold' %}{{ ref(l ~ '.b') }} {{ landing_zone('z') }}
      {% if is_append_only() %}{{ ref('silver.c') }}{% endif %}{# {{ ref('silver.d') }} #}`
    expect(collect(source)).toEqual({ refs: ['bronze.a', 'gold.b'], zones: ['z'] })
    expect(collect(source, { strategy: 'append_only' }).refs).toEqual(['bronze.a', 'gold.b', 'silver.c'])
  })
})

describe('errors of a template', () => {
  test.each([
    ['select 1,\n  {{ nope }}', 'pipeline.sql line 2 column 6: "nope" is undefined'],
    ['𝒳 {{ nope.a }}', 'pipeline.sql line 1 column 7: "nope.a" is undefined'],
    ['{% if nope %}1{% endif %}', 'pipeline.sql line 1 column 7: "nope" is undefined'],
    ['{% for a in nope %}{% endfor %}', 'pipeline.sql line 1 column 13: '],
    ['{{ this', 'pipeline.sql line 1 column 4: syntax error: '],
    ['{% if true %}', 'pipeline.sql line 1 column 12: syntax error: '],
    ['\n{{ 1 | nofilter }}', 'pipeline.sql line 2 column 8: unknown filter: filter nofilter is unknown'],
    ['{{ env("HOME") }}', 'pipeline.sql line 1 column 4: unknown function: env is unknown'],
    ['{{ debug() }}', 'pipeline.sql line 1 column 4: unknown function: debug is unknown'],
    ["{% include '/etc/passwd' %}", 'pipeline.sql line 1 column 4: template not found: '],
    ["\n {{ ref('silver.gone') }}", 'pipeline.sql line 2 column 5: there is no table silver.gone'],
    ["{{ ref('silver' ~ '.gone') }}", 'pipeline.sql line 1 column 4: there is no table silver.gone'],
    ['{{ ref(1) }} {{ ref(2) }}', 'pipeline.sql: ref() takes one name in quotes'],
    ["\n{{ ref('a', 'b') }}", 'pipeline.sql line 2 column 4: ref() takes one name in quotes'],
    ['{{ landing_zone() }}', 'pipeline.sql line 1 column 4: landing_zone() takes one name in quotes'],
    ['{{ ref(none) }}', 'pipeline.sql line 1 column 4: ref() takes one name in quotes'],
  ])('reports the error of %j', (source, message) => expect(errorOf(source).message).toStartWith(message))

  test('separates the position and the cause of an error', () => {
    const error = errorOf("{{ ref('silver.gone') }}")
    expect(error).toMatchObject({
      file: 'pipeline.sql',
      line: 1,
      column: 4,
      text: 'there is no table silver.gone',
    })
    expect(error.cause).toEqual(new Error('there is no table silver.gone'))
  })

  test('reports a line far down correctly', () => {
    expect(errorOf(`${'\n'.repeat(12_344)}  {{ nope }}`)).toMatchObject({ line: 12_345, column: 6 })
  })
})

describe('limits of a template', () => {
  test.each([
    [
      'an endless loop',
      '{% for i in range(99999) %}{% for j in range(99999) %}x{% endfor %}{% endfor %}',
      'takes too long',
    ],
    ['a huge text from a short expression', '{{ "x" * 1000000000 }}', 'too much memory'],
    [
      'a text that doubles in each iteration',
      '{% set n = namespace(x="aaaaaaaa") %}{% for i in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor %}',
      'too much memory',
    ],
    [
      'many comparisons of a large text',
      '{% set x = "a" * 9000000 %}{% for i in range(99999) %}{% if x ~ "b" == 1 %}{% endif %}{% endfor %}',
      'takes too long',
    ],
    ['a large result', '{{ "x" * 9000000 }}', `larger than ${TEMPLATE_LIMITS.outputBytes} bytes`],
    ['a large template', ' '.repeat(1_100_000), `larger than ${TEMPLATE_LIMITS.sourceBytes} bytes`],
    ['deeply nested brackets', `{{ ${'('.repeat(50_000)}1`, 'recursion'],
    ['deeply nested signs', `{{ ${'-'.repeat(50_000)}1 }}`, 'nested too deeply'],
    ['a macro that calls itself', '{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}', 'recursion limit'],
  ])('stop %s', (_, source, message) => {
    expect(errorOf(source).message).toContain(message)
    expect(render('{{ this }}')).toBe(variables.this)
  })
})

// One unit of work takes 1 to 45 ns, because loops and calls count. Loops alone would let the comparison take 11 s.
test.each([
  '{% set l = range(1000)|list %}{% for i in range(10000) %}{% if -1 in l %}{% endif %}{% endfor %}',
  '{% set l = range(10000)|list %}{% for i in range(100000) %}{% if l == [i] + l %}{% endif %}{% endfor %}',
  '{% for i in range(1000) %}{% set a = range(10000)|sort(reverse=true)|list %}{% endfor %}',
])('the work of %j is limited in processor time', (source) => {
  const before = process.cpuUsage()
  expect(errorOf(source).message).toContain('takes too long')
  const { user, system } = process.cpuUsage(before)
  expect((user + system) / 1_000).toBeLessThan(2_000)
})

test('renders a text without delimiters unchanged', () => {
  const plain = fc.string({ unit: 'binary' }).filter((text) => !/\{[{%#]/.test(text) && text.isWellFormed())
  fc.assert(fc.property(plain, (text) => expect(render(text)).toBe(text.replaceAll('\r\n', '\r\n'))))
})

test('renders any template or throws a TemplateError', () => {
  const piece = fc.constantFrom(
    ...'{{ }} {% %} {# #} if endif for in set = ( ) | . ~'.split(' '),
    ' ',
    ...["'a'", '1', 'this', 'ref', 'x', '\n', 'raw', 'endraw', 'macro', '[', ']', ':', '-', '+'],
  )
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 30 }), (pieces) => {
      try {
        expect(typeof render(pieces.join(' '))).toBe('string')
      } catch (error) {
        expect(error).toBeInstanceOf(TemplateError)
      }
    }),
  )
})
