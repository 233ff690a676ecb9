import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { pythonReferences, sqlReferences } from './references.ts'

const sql = (source: string) => sqlReferences(source).calls.map((call) => `${call.function} ${call.argument}`)
const python = (source: string) => pythonReferences(source).map((call) => `${call.function} ${call.argument}`)

describe('SQL', () => {
  test('finds SQL calls inside delimiters with their positions', () => {
    const source = `SELECT *
FROM {{ ref('silver.flights') }} f
JOIN {{ref( "ops.gold.routes" )}} USING (id)
WHERE x IN (SELECT * FROM read_csv_auto('{{ landing_zone("raw") }}'))
{% if is_incremental() %} AND ts > (SELECT max(ts) FROM {{ ref('silver.old',) }}) {% endif %}
{%- set t = ref('gold.t') -%}`
    expect(sqlReferences(source).calls).toEqual([
      { function: 'ref', argument: 'silver.flights', line: 2, column: 9 },
      { function: 'ref', argument: 'ops.gold.routes', line: 3, column: 8 },
      { function: 'landing_zone', argument: 'raw', line: 4, column: 45 },
      { function: 'ref', argument: 'silver.old', line: 5, column: 60 },
      { function: 'ref', argument: 'gold.t', line: 6, column: 13 },
    ])
  })

  test('finds delimited calls in SQL comments', () => {
    expect(sql("-- {{ ref('a.b') }}\nselect 1 /* {{ ref('c.d') }} */")).toEqual(['ref a.b', 'ref c.d'])
  })

  test('marks only calls inside real SQL comments', () => {
    const read = (source: string) =>
      sqlReferences(source)
        .calls.filter((call) => !call.isCommented)
        .map((call) => call.argument)
    for (const source of [
      "-- {{ ref('a.b') }} {{ ref('c.d') }}\nselect 1",
      "/* {{ ref('a.b') }} */ select 1",
      "/* /* */ {{ ref('a.b') }} */ select 1",
      "/* -- */ /* ' */ /* {{ ref('a.b') }} */",
      "/* never closed {{ ref('a.b') }}",
      "select '/*' -- {{ ref('a.b') }}",
      "select 1 -- it's\r-- {{ ref('a.b') }}",
    ])
      expect([source, read(source)]).toEqual([source, []])
    for (const source of [
      "-- one\nselect * from {{ ref('a.b') }}",
      "/* /* */ */ select * from {{ ref('a.b') }}",
      "select '--', * from {{ ref('a.b') }}",
      "select 'it''s /*', * from {{ ref('a.b') }}",
      "select e'it\\'s --', * from {{ ref('a.b') }}",
      "select name'--' from {{ ref('a.b') }}",
      "select '\\', '--', * from {{ ref('a.b') }}",
      `select "--", "/*" from {{ ref('a.b') }}`,
      "select $$ it's -- /* $$, * from {{ ref('a.b') }}",
      "select $x$ $$ -- $x$, * from {{ ref('a.b') }}",
      "select $x$ -- $$x$, * from {{ ref('a.b') }}",
      "select a$b$, * from {{ ref('a.b') }} where a$b$ = '--'",
      "-- {# \n #}\nselect * from {{ ref('a.b') }}",
      "{# /* #} select * from {{ ref('a.b') }}",
      "{% raw %}{# {% endraw %} select * from {{ ref('a.b') }}",
    ])
      expect([source, read(source)]).toEqual([source, ['a.b']])
  })

  test('ignores methods and filters, even after much white space', () => {
    expect(sql(`{{ x.${' '.repeat(50)}ref('a.b') }}{{ x |\n\n\n          ref('a.b') }}`)).toEqual([])
  })

  test('ignores calls that the template does not evaluate', () => {
    for (const source of [
      "-- ref('a.b')",
      "/* ref('a.b') */",
      "select 'ref(''a.b'')'",
      "{# {{ ref('a.b') }} #}",
      "{% raw %}{{ ref('a.b') }}{% endraw %}",
      "{%- raw -%} {{ ref('a.b') }} {%- endraw -%}",
      `{{ "ref('a.b')" }}`,
      `{{ 'it\\'s ref("a.b")' }}`,
      "{{ x.ref('a.b') }}",
      "{{ x | ref('a.b') }}",
      "{{ href('a.b') }}",
      '{{ ref(name) }}',
      "{{ ref('a' ~ 'b') }}",
      "{{ ref('a.b', 'c') }}",
      "{{ ref('a.b'",
    ])
      expect([source, sql(source)]).toEqual([source, []])
  })

  test('reports the position of a call with a computed argument', () => {
    expect(
      sqlReferences("SELECT 1\nFROM {{ ref('a' ~ 'b') }} -- {# ref(x) #}\n{{ landing_zone() }}").dynamic,
    ).toEqual([
      { function: 'ref', line: 2, column: 9 },
      { function: 'landing_zone', line: 3, column: 4 },
    ])
  })

  test('ignores closing delimiters inside texts', () => {
    expect(sql(`{{ "}}" ~ ref('a.b') }}{% if '%}' and ref('c.d') %}{% endif %}`)).toEqual([
      'ref a.b',
      'ref c.d',
    ])
  })

  test('reports bare calls in plain SQL, but not in comments or texts', () => {
    const source = `SELECT ref('a.b') FROM href('x') -- ref('c.d')
/* ref(1) */ WHERE 'ref(2)' <> "ref(3)" AND LANDING_ZONE = 1 AND landing_zone ('z') {{ ref('e.f') }} AND t.ref('x')`
    expect(sqlReferences(source).bare).toEqual([
      { function: 'ref', line: 1, column: 8 },
      { function: 'landing_zone', line: 2, column: 66 },
    ])
    expect(sql(source)).toEqual(['ref e.f'])
  })

  test('continues a text or comment after a template tag', () => {
    expect(sqlReferences(`SELECT '{{ ref('a.b') }} ref(' || x -- {{ 1 }} ref(\n, ref(2)`)).toEqual({
      calls: [{ function: 'ref', argument: 'a.b', line: 1, column: 12 }],
      dynamic: [],
      bare: [{ function: 'ref', line: 2, column: 3 }],
    })
  })
})

describe('Python', () => {
  test('finds Python calls in code and f-strings with their positions', () => {
    const source = `# a pipeline
flights = sql(f"select * from {ref('silver.flights')} where x = {{ref('no.no')}}")
result = sql(f'''
  select * from read_csv_auto('{landing_zone("raw")}') join {f"{ref("gold.inner")}"}
''')
other = ref("ops.gold.routes")
d = {'a': {ref('bronze.b'): 1}}`
    expect(pythonReferences(source)).toEqual([
      { function: 'ref', argument: 'silver.flights', line: 2, column: 32 },
      { function: 'landing_zone', argument: 'raw', line: 4, column: 33 },
      { function: 'ref', argument: 'gold.inner', line: 4, column: 65 },
      { function: 'ref', argument: 'ops.gold.routes', line: 6, column: 9 },
      { function: 'ref', argument: 'bronze.b', line: 7, column: 12 },
    ])
  })

  test('ignores comments, plain strings and other functions in Python', () => {
    for (const source of [
      "# ref('a.b')",
      `"ref('a.b')"`,
      `"""\nref('a.b')\n"""`,
      "b'x' 'it\\'s ref(\"a.b\")'",
      "x.ref('a.b')",
      'def ref(name): pass',
      "prefix_ref('a.b')",
      "ref(f'{a}.b')",
      "rb'ref(\"a.b\")' Rb\"ref('a.b')\" r'\\' + ref(\"a.b\")'",
      'f"{{ref(\'a.b\')}}"',
      "f'{x:ref(1)}' f'{x!r:>{w}}' 'ref(\"a.b\")'",
      "x.\\\n    ref('a.b')".replace('\\\n', '\n'),
      "ref('a.b' 'c')",
      "ref('a' + '.b')",
      "ref(name='a.b')",
    ])
      expect([source, python(source)]).toEqual([source, []])
  })

  test('reads formats of replacement fields as text with fields', () => {
    expect(python(`f"{x:'>10} {ref('a.b')}" + f'{y:{ref("c.d")}}' + f"{d['k']:%H:%M} {ref('e.f')}"`)).toEqual(
      ['ref a.b', 'ref c.d', 'ref e.f'],
    )
    expect(python(`f"{ {'a': ref('a.b')}['a'] } {(lambda x: ref('c.d'))(1)}"; ref('e.f')`)).toEqual([
      'ref a.b',
      'ref c.d',
      'ref e.f',
    ])
  })

  test('ends an unfinished Python string at the end of its line', () => {
    expect(python("a = 'oops\nref('a.b')")).toEqual(['ref a.b'])
  })
})

test('reads any text completely', () => {
  const pieces = fc.constantFrom(
    ...`{{ }} {% %} {# #} ' " """ \\ -- /* */ f" { }`.split(' '),
    '\n',
    ' ',
    ...["ref('a.b')", 'landing_zone("z")', 'ref(', '{% raw %}', '{% endraw %}', '#', 'é', '𝒳'],
  )
  fc.assert(
    fc.property(fc.array(pieces, { maxLength: 40 }), (parts) => {
      const source = parts.join('')
      for (const call of [...sqlReferences(source).calls, ...pythonReferences(source)]) {
        const line = source.split('\n')[call.line - 1] ?? ''
        expect(line.slice(call.column - 1)).toStartWith(call.function)
      }
    }),
  )
})

/** With quadratic cost, a text of this length takes minutes. */
const LENGTH = 262_144
const filled = (piece: string) => piece.repeat(Math.ceil(LENGTH / piece.length))

test.each([
  'f"{',
  "f'{x:{",
  'f"""{x:',
  '{{ ',
  '{% raw %}',
  '{{ "',
  "{{ ref('",
  "ref('a.b'",
  'ref(',
  'ref ',
  'x.ref',
  '. ref',
  '/*',
  '/* */',
  '$a',
  '$$',
  '$a$b$',
  "e'\\",
  "'''",
  '"""',
  '\\',
  '{#',
  '#}',
  '((((',
  '))))',
  'landing_zone',
  'é𝒳',
])('reads a long text of %j in linear time', (piece) => {
  for (const source of [
    filled(piece),
    `{{ ${filled(piece)}`,
    `${piece}${filled(' ')}${piece}`,
    filled(`${piece}\n`),
    `$x$${filled(piece)}`,
  ]) {
    sqlReferences(source)
    pythonReferences(source)
  }
})

test('reads a call with much white space fast', () => {
  const space = filled(' ')
  for (const call of [
    `ref('a.b'${space}`,
    `ref('a.b',${space}`,
    `ref(${space}`,
    `ref${space}`,
    `.${space}ref('a.b')`,
  ]) {
    expect(python(`${call}x`)).toEqual([])
    expect(sql(`{{ ${call}x }}`)).toEqual([])
  }
  expect(sql(`{{ ref${space}('a.b'${space},${space}) }}`)).toEqual(['ref a.b'])
  expect(sql(filled("{{ ref('a.b') }}\n"))).toHaveLength(Math.ceil(LENGTH / 17))
})
