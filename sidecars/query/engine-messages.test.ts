import { expect, test } from 'bun:test'
import { isAnswerOf } from './engine-messages.ts'
import { limits } from './limits.ts'

const answerOf = (text: string | Uint8Array, rows: number) => ({
  arrow: null,
  json: {
    columns: [{ name: 'a', type: 'INTEGER' }],
    rows: typeof text === 'string' ? new TextEncoder().encode(text) : text,
  },
  rows,
  truncated: false,
})
const statement = { sql: '', kind: 'select', tables: [], listsTables: false, setsSeed: false, rowsOf: null }
const isBelieved = (answer: unknown) => {
  const believed = isAnswerOf('run', answer)
  expect(isAnswerOf('ask', { statement, rows: answer })).toBe(believed)
  return believed
}

test('the JSON text of an answer is believed to be as many rows as it says', () => {
  expect(isBelieved(answerOf('', 0))).toBe(true)
  expect(isBelieved(answerOf('{"a":1},{"a":"\u00e9"}', 2))).toBe(true)
})

test('no answer has more rows than anybody may ask for', () => {
  const answer = { arrow: new Uint8Array(), json: null, truncated: false }
  expect(isBelieved({ ...answer, rows: limits.rows })).toBe(true)
  expect(isBelieved({ ...answer, rows: limits.rows + 1 })).toBe(false)
})

test('an answer is a stream no longer than asked for, or text, and not both', () => {
  const answer = { arrow: new Uint8Array(limits.resultBytes), json: null, rows: 1, truncated: false }
  expect(isBelieved(answer)).toBe(true)
  expect(isBelieved({ ...answer, arrow: new Uint8Array(limits.resultBytes + 1) })).toBe(false)
  expect(isBelieved({ ...answer, arrow: null })).toBe(false)
  expect(isBelieved({ ...answerOf('{"a":1}', 1), arrow: new Uint8Array() })).toBe(false)
})

test('columns of an engine have a name each', () => {
  const answer = answerOf('{"a":1,"a":1}', 1)
  const [column] = answer.json.columns
  expect(isBelieved({ ...answer, json: { ...answer.json, columns: [column, column] } })).toBe(false)
})

test.each([
  ['another number of rows', '{"a":1}', 2],
  ['no rows', '', 1],
  ['rows of other columns', '{"b":1}', 1],
  ['rows of more columns', '{"a":1,"b":1}', 1],
  ['no objects', '1,[2],null', 3],
  ['what ends the rows and goes on', '{"a":1}],"total_rows":9,"x":[{"a":1}', 1],
  ['what ends before it is whole', '{"a":1', 1],
  ['bytes that are no text', new Uint8Array([123, 34, 0xff, 34, 58, 49, 125]), 1],
  ['a byte order mark', '\ufeff{"a":1}', 1],
  ['more than is small', `{"a":"${' '.repeat(limits.smallJsonTextBytes)}"}`, 1],
])('the JSON text of an engine is not believed where it is %s', (_, text, rows) => {
  expect(isBelieved(answerOf(text, rows))).toBe(false)
})
