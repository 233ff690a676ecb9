import { describe, expect, test } from 'bun:test'
import { CREATED, definitionOf, isWithin } from './definitions.ts'
import { type DrawingOptions, drawingOf } from './drawing.ts'
import { type Box, layOut } from './layout.ts'
import { type Detail, MACHINE_NAMES, type MachineName } from './schema.ts'

const draw = (machine: MachineName, options: Partial<DrawingOptions> = {}) =>
  drawingOf(definitionOf(machine), { detail: 'full', isStandalone: true, ...options })

const attribute = (tag: string, name: string) => new RegExp(` ${name}="([^"]*)"`).exec(tag)?.[1]

/** Start tags with the given attribute, in order. */
const tagsWith = (svg: string, name: string) =>
  [...svg.matchAll(/<\w+[^>]*>/g)].map(([tag]) => tag).filter((tag) => attribute(tag, name) !== undefined)
const classed = (svg: string, name: string, value: string) =>
  tagsWith(svg, name).filter((tag) => attribute(tag, 'class')?.split(' ').includes(value))

const transitionsOf = (tags: readonly string[]) =>
  tags.flatMap((tag) => attribute(tag, 'data-transitions')?.split(' ') ?? [])

/** Asserts that opening and closing tags match, and returns tags that are still open. */
function openTags(svg: string): string[] {
  const open: string[] = []
  for (const [, close, name = '', rest = ''] of svg.matchAll(/<(\/?)(\w+)((?:"[^"]*"|[^">])*)>/g)) {
    if (close === '/') expect(open.pop()).toBe(name)
    else if (!rest.endsWith('/')) open.push(name)
  }
  return open
}

const overlap = (a: Box, b: Box) =>
  Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x) > 1 &&
  Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y) > 1
const isInside = (inner: Box, outer: Box) =>
  inner.x >= outer.x - 0.5 &&
  inner.y >= outer.y - 0.5 &&
  inner.x + inner.width <= outer.x + outer.width + 0.5 &&
  inner.y + inner.height <= outer.y + outer.height + 0.5

describe.each([...MACHINE_NAMES])('the statechart of a %s', (machine) => {
  const definition = definitionOf(machine)
  const svg = draw(machine)

  test('is well-formed', () => {
    for (const detail of ['full', 'events', 'states'] as const)
      expect(openTags(draw(machine, { detail }))).toEqual([])
  })

  test('contains every state once and marks final states', () => {
    const drawn = tagsWith(svg, 'data-state')
    expect(drawn.map((tag) => attribute(tag, 'data-state')).sort()).toEqual(
      definition.states.map(({ path }) => path).sort(),
    )
    const finals = drawn.filter((tag) => attribute(tag, 'class')?.includes('final'))
    expect(finals.map((tag) => attribute(tag, 'data-state')).sort()).toEqual(
      definition.states.flatMap(({ path, kind }) => (kind === 'final' ? [path] : [])).sort(),
    )
  })

  test('marks the initial state of each level', () => {
    expect(classed(svg, 'data-transitions', 'initial')).toHaveLength(
      definition.states.filter(({ initial }) => initial).length,
    )
    const first = transitionsOf(classed(draw(machine, { taken: CREATED }), 'data-transitions', 'taken'))
    expect(first).toEqual(Array(definition.initial.split('.').length).fill(CREATED))
  })

  test.each(['full', 'events', 'states'] as const)('has an arrow for every transition (%s)', (detail) => {
    const arrows = transitionsOf(classed(draw(machine, { detail }), 'data-transitions', 'way'))
    const wanted = definition.transitions.map(({ id }) => id)
    expect(arrows.filter((id) => id !== CREATED && id !== '').sort()).toEqual(wanted.sort())
  })

  test('labels every transition with event, guard, updates and effects', () => {
    for (const { id, event, guard, updates, effects } of definition.transitions) {
      const lines = [...svg.matchAll(/<g class="line[^>]*data-transitions="([^"]*)"[^>]*>(.*?)<\/g>/g)]
        .filter(([, ids = '']) => ids.split(' ').includes(id))
        .map(([, , text = '']) => text.replace(/<[^>]*>/g, ''))
      const labelText = lines.join(' ')
      expect(labelText).toStartWith(event)
      if (guard !== null) expect(labelText).toContain(`[${guard}]`)
      expect(labelText.split('/ ')[1]?.split(', ') ?? []).toEqual([...updates, ...effects])
    }
  })

  test('omits effects at detail `events`, and all labels at detail `states`', () => {
    expect(draw(machine, { detail: 'events' })).not.toContain('class="effects"')
    expect(draw(machine, { detail: 'states' })).not.toContain('class="line"')
  })

  test.each(definition.states.map(({ path }) => path))('lights %s and what it is in, only', (active) => {
    const lit = classed(draw(machine, { active }), 'data-state', 'active').map((tag) =>
      attribute(tag, 'data-state'),
    )
    const wanted = definition.states.flatMap(({ path }) => (isWithin(active, path) ? [path] : []))
    expect(lit.sort()).toEqual(wanted.sort())
  })

  test('highlights the arrow and the label of the taken transition', () => {
    for (const { id } of definition.transitions) {
      const tags = tagsWith(draw(machine, { taken: id }), 'data-transitions')
      const lit = tags.filter((tag) => attribute(tag, 'class')?.split(' ').includes('taken'))
      const containing = tags.filter((tag) => attribute(tag, 'data-transitions')?.split(' ').includes(id))
      expect(lit).toHaveLength(containing.length)
      for (const tag of lit) expect(transitionsOf([tag])).toContain(id)
    }
  })

  test('shows the number of instances in a state, without empty badges', () => {
    const counted = draw(machine, { counts: new Map([[definition.initial, '12,345']]) })
    expect(counted.match(/class="badge"/g)).toHaveLength(1)
    expect(counted).toContain('>12,345</text>')
  })

  test.each(['full', 'events', 'states'] as Detail[])(
    'keeps boxes inside their parents and free of overlaps (%s)',
    (detail) => {
      const { states, compounds, groups, edges, width, height, top } = layOut(definition, detail)
      const drawing = { x: 0, y: top, width, height }
      for (const box of [...states, ...compounds, ...groups]) expect(isInside(box, drawing)).toBe(true)
      for (const { label } of edges) expect(isInside(label, drawing)).toBe(true)
      for (const [index, one] of states.entries()) {
        const parent = compounds.find(({ state }) => state.path === one.state.parent)
        if (parent !== undefined) expect(isInside(one, parent)).toBe(true)
        for (const other of states.slice(index + 1)) expect(overlap(one, other)).toBe(false)
        for (const { label } of edges) if (label.lines.length > 0) expect(overlap(one, label)).toBe(false)
      }
      for (const [index, { label }] of edges.entries())
        for (const other of edges.slice(index + 1))
          if (label.lines.length > 0 && other.label.lines.length > 0)
            expect(overlap(label, other.label)).toBe(false)
    },
  )

  test('is drawn identically each time', () => expect(draw(machine)).toBe(svg))
})

test('a standalone drawing contains light and dark styles, and no links', () => {
  const svg = draw('run')
  expect(svg).toContain('<style>')
  expect(svg).toContain('@media (prefers-color-scheme: dark)')
  expect(svg.replace('xmlns="http://www.w3.org/2000/svg"', '')).not.toMatch(/https?:|url\(|<script|href/)
})

test('a drawing for the page has no styles, which the policy forbids', () => {
  const svg = draw('run', { isStandalone: false })
  expect(svg).not.toMatch(/<style|style="/)
})

test('a title is escaped as text', () => {
  expect(draw('draft', { title: '<script>"&' })).toContain('<title>&lt;script&gt;&quot;&amp;</title>')
})
