import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { pythonReferences, sqlReferences } from './references.ts'

const sql = (source: string) => sqlReferences(source).calls.map((call) => `${call.function} ${call.argument}`)
const python = (source: string) => pythonReferences(source).map((call) => `${call.function} ${call.argument}`)

describe('SQL', () => {
  test('calls inside delimiters are found, with their place', () => {
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

  test('a call behind -- is evaluated by the template, so it counts', () => {
    expect(sql("-- {{ ref('a.b') }}\nselect 1 /* {{ ref('c.d') }} */")).toEqual(['ref a.b', 'ref c.d'])
  })

  test('what the template does not evaluate is no call', () => {
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

  test('a call whose argument is computed has a place too', () => {
    expect(
      sqlReferences("SELECT 1\nFROM {{ ref('a' ~ 'b') }} -- {# ref(x) #}\n{{ landing_zone() }}").dynamic,
    ).toEqual([
      { function: 'ref', line: 2, column: 9 },
      { function: 'landing_zone', line: 3, column: 4 },
    ])
  })

  test('a closing delimiter inside a text does not close', () => {
    expect(sql(`{{ "}}" ~ ref('a.b') }}{% if '%}' and ref('c.d') %}{% endif %}`)).toEqual([
      'ref a.b',
      'ref c.d',
    ])
  })

  test('a bare call in plain SQL is reported, one in a comment or a text is not', () => {
    const source = `SELECT ref('a.b') FROM href('x') -- ref('c.d')
/* ref(1) */ WHERE 'ref(2)' <> "ref(3)" AND LANDING_ZONE = 1 AND landing_zone ('z') {{ ref('e.f') }} AND t.ref('x')`
    expect(sqlReferences(source).bare).toEqual([
      { function: 'ref', line: 1, column: 8 },
      { function: 'landing_zone', line: 2, column: 66 },
    ])
    expect(sql(source)).toEqual(['ref e.f'])
  })

  test('a text that a template is part of goes on after it', () => {
    expect(sqlReferences(`SELECT '{{ ref('a.b') }} ref(' || x -- {{ 1 }} ref(\n, ref(2)`)).toEqual({
      calls: [{ function: 'ref', argument: 'a.b', line: 1, column: 12 }],
      dynamic: [],
      bare: [{ function: 'ref', line: 2, column: 3 }],
    })
  })
})

describe('Python', () => {
  test('calls in code and in f-strings are found, with their place', () => {
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

  test('comments, plain strings and other functions are not', () => {
    for (const source of [
      "# ref('a.b')",
      `"ref('a.b')"`,
      `"""\nref('a.b')\n"""`,
      "b'x' 'it\\'s ref(\"a.b\")'",
      "x.ref('a.b')",
      'def ref(name): pass',
      "prefix_ref('a.b')",
      "ref(f'{a}.b')",
    ])
      expect([source, python(source)]).toEqual([source, []])
  })

  test('an unfinished string ends with its line', () => {
    expect(python("a = 'oops\nref('a.b')")).toEqual(['ref a.b'])
  })
})

test('any text is read to its end', () => {
  const pieces = fc.constantFrom(
    ...[
      '{{',
      '}}',
      '{%',
      '%}',
      '{#',
      '#}',
      "'",
      '"',
      '"""',
      '\\',
      '--',
      '/*',
      '*/',
      '\n',
      'f"',
      '{',
      '}',
      ' ',
    ],
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

test('nesting and size end soon', () => {
  pythonReferences('f"{'.repeat(200_000))
  sqlReferences('{{ '.repeat(200_000))
  expect(sqlReferences(`${"{{ ref('a.b') }}\n".repeat(20_000)}`).calls).toHaveLength(20_000)
})
