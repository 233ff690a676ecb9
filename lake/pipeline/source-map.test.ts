import { expect, test } from 'bun:test'
import { sourceMapOf } from './source-map.ts'
import { renderTemplate } from './template.ts'

async function placeOf(source: string, word: string) {
  const render = async (text: string) =>
    renderTemplate(
      { file: 'pipeline.sql', source: text },
      { strategy: 'incremental', this: 'own', runStartedAt: '', watermarkValue: null },
      { ref: (name) => `"a\n${name}"`, landingZone: (name) => name },
    )
  const rendered = await render(source)
  const at = rendered.indexOf(word)
  expect(at).toBeGreaterThanOrEqual(0)
  const position = (await sourceMapOf(source, rendered, render))(at)
  return position && `${position.line}:${position.column}`
}

test.each([
  ['select nope from a', 'nope', '1:8'],
  ["select 1 from {{ ref('gold.a') }} where nope", 'nope', '1:41'],
  ["select 1\nfrom {{ ref('gold.a') }},\n  {{ ref('gold.b') }}, nope", 'nope', '3:24'],
  ['{% for i in range(3) %}\n{{ i }},\n{% endfor %}\nnope', 'nope', '4:1'],
  ['{% for i in range(3) -%}\n   nope{{ i }},\n{% endfor %}', 'nope2', '2:4'],
  ['{% if is_incremental() %}\nnope\n{% else %}\nother\n{% endif %}', 'nope', '2:1'],
  ['{% raw %}{{ x }}{% endraw %} é nope', 'nope', '1:32'],
  ["select\n{{ ref('gold.a') }}", 'gold.a', '2:1'],
])('maps in %p the text %s to %s', async (source, word, position) => {
  expect(await placeOf(source, word)).toBe(position)
})

test('maps nothing when a template depends on its own text', async () => {
  expect(await placeOf('{% set a %}x{% endset %}{{ a | length }} nope', 'nope')).toBeNull()
  expect(await placeOf('\u{f0001} {{ this }} nope', 'nope')).toBeNull()
})
