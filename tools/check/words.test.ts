import { expect, test } from 'bun:test'
import { commentsOf, paragraphsOf, sentencesOf, titleFaults } from './words.ts'

test('joins the lines of one comment and separates list items', () => {
  const source = [
    '// Requests wait here',
    '// until a slot is free.',
    'const a = 1 // the first slot',
    '/**',
    ' * Claims a slot.',
    ' *',
    ' * - one per run',
    ' */',
    "const url = 'http://a // b'",
    '// biome-ignore lint: a reason',
  ].join('\n')
  expect(commentsOf('a.ts', source)).toEqual([
    { line: 1, text: 'Requests wait here until a slot is free.' },
    { line: 3, text: 'the first slot' },
    { line: 5, text: 'Claims a slot.' },
    { line: 7, text: 'one per run' },
  ])
})

test('reads comments of Python by their mark', () => {
  expect(commentsOf('a.py', '# A lease expires.\nx = 1')).toEqual([{ line: 1, text: 'A lease expires.' }])
})

test('reads paragraphs, list items and table cells without code blocks', () => {
  const source =
    '# Title\nOne paragraph\nof two lines.\n\n- an item\n  that goes on\n\n```sh\nrun\n```\n| a | b |\n'
  expect(paragraphsOf(source)).toEqual([
    { line: 2, text: 'One paragraph of two lines.' },
    { line: 5, text: 'an item that goes on' },
    { line: 11, text: 'a' },
    { line: 11, text: 'b' },
  ])
})

test('splits sentences at full stops and counts code as one word', () => {
  expect(sentencesOf('Runs wait (`a. B`). They start later. See [the docs](a.md).')).toEqual([
    'Runs wait (code).',
    'They start later.',
    'See the docs.',
  ])
})

test('finds long titles and titles that begin with a relative pronoun', () => {
  const long = 'a b c d e f g h i j k l m n o'
  const source = `test('keeps order', f)\ntest('${long}', f)\ntest.each([1])("what is left stays", f)`
  expect(titleFaults('a.test.ts', source)).toEqual([
    `a.test.ts:2: 15 words in a title: ${long}`,
    'a.test.ts:3: title begins with a relative pronoun: what is left stays',
  ])
})
