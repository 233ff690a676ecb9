import { expect, test } from 'bun:test'
import { documentOf, explainedIn, messagesOf } from './messages.ts'

const textsIn = (text: string) =>
  messagesOf([{ path: 'app/a.ts', text }]).map((message) => `${message.kind}: ${message.text}`)

test.each<[title: string, source: string, texts: string[]]>([
  ['a literal', `throw new Error('disk is full')`, ['Error: disk is full']],
  ['a value in a template', `throw new Error(\`run \${run.id} has ended\`)`, ['Error: run <id> has ended']],
  [
    'both branches of a condition',
    `log.warn(a ? 'disk is full' : 'disk is slow')`,
    ['log warn: disk is full', 'log warn: disk is slow'],
  ],
  ['a log line with fields', `deps.log.error('tick failed', { error })`, ['log error: tick failed']],
  [
    'a call of a function that returns an error',
    `const missing = (what: string) => new Error(\`\${what} not found\`); throw missing('the run')`,
    ['Error: <what> not found', 'missing: the run not found'],
  ],
  [
    'a subclass of an error class',
    `class A extends Error {}\nclass B extends A {}\nthrow new B('no such run')`,
    ['B: no such run'],
  ],
  ['no text of a class that is no error', `new Map([['not an', 'error text']])`, []],
  ['no code word', `throw new Error('NOT_FOUND')`, []],
])('the texts of a source include %s', (_, source, texts) => {
  expect(textsIn(source)).toEqual(texts)
})

const SOURCE = {
  path: 'app/runs/end.ts',
  text: `throw new Error('run ended | late')\nconst why = 'disk is full'`,
}
const EXPLAINED = { cause: 'the run took too long', remedy: 'raise RUN_TIMEOUT' }

test('a document keeps cause and remedy of the texts that still exist', () => {
  const before = new Map([
    ['run ended | late', EXPLAINED],
    ['disk is full', EXPLAINED],
    ['a text that was removed', EXPLAINED],
  ])
  const after = explainedIn(documentOf([SOURCE], before))
  expect([...after.keys()].sort()).toEqual(['disk is full', 'run ended | late'])
  expect(after.get('run ended | late')).toEqual(EXPLAINED)
})

test('a document has an empty row for a new text', () => {
  const rows = explainedIn(documentOf([SOURCE], new Map()))
  expect(rows).toEqual(new Map([['run ended | late', { cause: '', remedy: '' }]]))
})
