import { expect, test } from 'bun:test'
import {
  renderTemplate,
  TemplateError,
  type TemplateResolver,
  type TemplateVariables,
} from '../../../lake/pipeline/template.ts'
import { renderPlain } from './rendering.ts'

const variables: TemplateVariables = {
  strategy: 'full_refresh',
  this: '"default.gold"."it\'s <b>"',
  runStartedAt: '2024-01-01T00:00:00Z',
  watermarkValue: null,
}
const resolver: TemplateResolver = {
  ref: (name) => {
    if (name === '') throw new Error('a name is empty')
    return `"${name}"`
  },
  landingZone: (name) => `/somewhere/${name}/*`,
}

const PLAIN = [
  'select 1 as a',
  'select 1 as a\n',
  'select 1\r\n as a\r\n\r\n',
  'select count(*) - 1 from {{ this }}',
  '{{this}}{{ this }}\n{{\tthis\n}}',
  'select * from {{ ref(\'silver.orders\') }} join {{ ref( "other" ) }} using (id)\n',
  "from read_csv_auto('{{ landing_zone('orders') }}')",
  "select {'a': 1, 'b': {'c': 2}} as s, '}}' as t, '%}' as u from {{ this }}}",
  "{ {{ this }} } '{' \u00e4\u{1f600}{{ this }}",
]

test('plain expressions are rendered exactly as the template engine renders them', () => {
  for (const source of PLAIN) {
    const template = { file: 'pipeline.sql', source }
    const plain = renderPlain(template, variables, resolver)
    expect(plain).not.toBeNull()
    expect(plain).toBe(renderTemplate(template, variables, resolver))
  }
})

const LEFT_TO_THE_ENGINE = [
  '{{{ this }}',
  '{{ this',
  '{{ this.x }}',
  '{{ this | upper }}',
  '{{- this -}}',
  "{{ ref('a' ~ 'b') }}",
  "{{ ref('a\\'b') }}",
  "{{ ref('') }}",
  '{# {{ this }} #}',
  '{% raw %}{{ this }}{% endraw %}',
  '{% if is_incremental() %}{{ this }}{% endif %}',
  '{{ run_started_at }}',
  '{{ this }} {{ nothing }}',
]

test('all other texts are left to the template engine', () => {
  for (const source of LEFT_TO_THE_ENGINE)
    expect([source, renderPlain({ file: 'pipeline.sql', source }, variables, resolver)]).toEqual([
      source,
      null,
    ])
  expect(() =>
    renderTemplate({ file: 'pipeline.sql', source: "{{ ref('') }}" }, variables, resolver),
  ).toThrow(TemplateError)
})
