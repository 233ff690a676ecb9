import { describe, expect, test } from 'bun:test'
import { readYaml, YAML_ALIASES } from './yaml.ts'

const BYTES = 65_536
const many = (part: (index: number) => string) => {
  let text = ''
  for (let index = 0; text.length < BYTES - 40; index++) text += part(index)
  return text
}

/** Each text has the maximum length of a file. */
const BOMBS: Record<string, string> = {
  'keys in a block': many((index) => `a${index.toString(36)}:\n`),
  'keys in braces': `{${many((index) => `a${index.toString(36)},`)}}`,
  'keys of a set': `!!set {${many((index) => `a${index},`)}}`,
  brackets: '['.repeat(BYTES),
  braces: '{'.repeat(BYTES),
  'lists in lists': '- '.repeat(BYTES / 2),
  'keys that are maps': '? '.repeat(BYTES / 2),
  colons: ': '.repeat(BYTES / 2),
  anchors: many((index) => `- &a${index} x\n`),
  aliases: `a: &a x\nb:\n${' - *a\n'.repeat(10_000)}`,
  'aliases of aliases': many((index) => `a${index}: &b${index} [*b${index - 1}, *b${index - 1}]\n`),
  'documents without end': '---\n'.repeat(BYTES / 4),
  directives: '%'.repeat(BYTES),
  tabs: 'a:\t'.repeat(BYTES / 3),
  faults: 'a: b: c\n'.repeat(BYTES / 8),
}

/** CPU time, because other processes may use the cores. The limit is far above the need, and far below quadratic cost. */
const CPU_MS = 2_500

describe('a hostile text of 64 KB', () => {
  test.each(Object.entries(BOMBS))('is read in linear time: %s', (_, text) => {
    const began = process.cpuUsage()
    const document = readYaml(text)
    try {
      if (document.errors.length === 0) document.toJS({ maxAliasCount: YAML_ALIASES })
    } catch (error) {
      expect(error).toBeInstanceOf(ReferenceError)
    }
    const { user, system } = process.cpuUsage(began)
    expect((user + system) / 1_000).toBeLessThan(CPU_MS)
  })
})

test('refuses repeated keys at any level and reports the second', () => {
  expect(readYaml('a: 1\nb: 2\n').errors).toEqual([])
  expect(readYaml('a: 1\na: 2\n').errors).toMatchObject([{ code: 'DUPLICATE_KEY', pos: [5, 6] }])
  expect(readYaml('a: [{b: 1, c: 2, b: 3}]').errors).toMatchObject([{ code: 'DUPLICATE_KEY' }])
  expect(readYaml('a: {b: 1}\nb: 2\n').errors).toEqual([])
})

test('refuses YAML that is nested too deeply', () => {
  const nested = (levels: number) => readYaml('['.repeat(levels) + ']'.repeat(levels)).errors
  expect(nested(40)).toEqual([])
  expect(nested(60)).toMatchObject([{ code: 'RESOURCE_EXHAUSTION' }])
})

test('prints nothing for any directive', () => {
  const warnings: string[] = []
  const onWarning = (warning: Error) => warnings.push(String(warning.message))
  process.on('warning', onWarning)
  readYaml(`%FORGED line\n---\na: 1\n`)
  process.off('warning', onWarning)
  expect(warnings).toEqual([])
})
