import { describe, expect, test } from 'bun:test'
import { type Column, columnsOf, fieldsOf, type Schema } from '../format/types.ts'
import { schemaForAppend, schemaForReplace } from './evolution.ts'
import { doubtsOf } from './projection.ts'

const columns = (types: Record<string, string>): Column[] =>
  Object.entries(types).map(([name, type]) => ({ name, type }))
const table = (types: Record<string, string>) => schemaForReplace(columns(types))
const append = (before: Record<string, string>, after: Record<string, string>) =>
  schemaForAppend(columns(after), table(before))
const replace = (before: Record<string, string>, after: Record<string, string>) =>
  schemaForReplace(columns(after), table(before))
const ids = (schema: Schema) =>
  Object.fromEntries([...fieldsOf(schema)].map(({ path, id }) => [path.join('.'), id]))
const types = (schema: Schema) => Object.fromEntries(columnsOf(schema).map(({ name, type }) => [name, type]))

describe('append', () => {
  test('changes nothing for equal columns in any order and case', () => {
    const next = append({ a: 'INTEGER', b: 'VARCHAR' }, { B: 'VARCHAR', A: 'INTEGER' })
    expect(next.isChanged).toBe(false)
    expect(next.schema).toEqual(table({ a: 'INTEGER', b: 'VARCHAR' }).schema)
  })

  test('adds a new column with a new id and keeps missing ones', () => {
    const next = append({ a: 'INTEGER', b: 'VARCHAR' }, { c: 'DATE', a: 'INTEGER' })
    expect(ids(next.schema)).toEqual({ a: 1, b: 2, c: 3 })
    expect(next).toMatchObject({ isChanged: true, lastColumnId: 3 })
  })

  test.each([
    ['INTEGER', 'BIGINT', 'BIGINT'],
    ['BIGINT', 'INTEGER', 'BIGINT'],
    ['BIGINT', 'TINYINT', 'BIGINT'],
    ['FLOAT', 'DOUBLE', 'DOUBLE'],
    ['DOUBLE', 'FLOAT', 'DOUBLE'],
    ['DECIMAL(5,2)', 'DECIMAL(9,2)', 'DECIMAL(9,2)'],
    ['DECIMAL(9,2)', 'DECIMAL(5,2)', 'DECIMAL(9,2)'],
    ['DECIMAL(4,2)', 'DECIMAL(3,1)', 'DECIMAL(4,2)'],
    ['DECIMAL(4,2)', 'DECIMAL(4,1)', 'DECIMAL(5,2)'],
    ['DECIMAL(4,2)', 'INTEGER', 'DECIMAL(12,2)'],
    ['DECIMAL(20,2)', 'BIGINT', 'DECIMAL(21,2)'],
    ['DECIMAL(38,10)', 'DECIMAL(28,0)', 'DECIMAL(38,10)'],
    ['DOUBLE', 'INTEGER', 'DOUBLE'],
    ['DOUBLE', 'DECIMAL(15,3)', 'DOUBLE'],
    ['TIMESTAMP', 'DATE', 'TIMESTAMP'],
    ['DECIMAL(4,2)[]', 'INTEGER[]', 'DECIMAL(12,2)[]'],
    ['VARCHAR', 'JSON', 'VARCHAR'],
    ['INTEGER[]', 'BIGINT[3]', 'BIGINT[]'],
    ['MAP(VARCHAR, INTEGER)', 'MAP(VARCHAR, BIGINT)', 'MAP(VARCHAR, BIGINT)'],
    ['STRUCT(x INTEGER)', 'STRUCT(X BIGINT)', 'STRUCT(x BIGINT)'],
    ['STRUCT(x INTEGER)', 'STRUCT(y DATE)', 'STRUCT(x INTEGER, y DATE)'],
    ['STRUCT(x INTEGER)[]', 'STRUCT(x INTEGER, y DATE)[]', 'STRUCT(x INTEGER, y DATE)[]'],
  ])('combines %s and %s into %s', (before, after, together) => {
    expect(types(append({ a: before }, { a: after }).schema)).toEqual({ a: together })
  })

  test.each([
    ['INTEGER', 'VARCHAR'],
    ['VARCHAR', 'INTEGER'],
    ['BIGINT', 'DOUBLE'],
    ['INTEGER', 'DECIMAL(20,0)'],
    ['DECIMAL(9,2)', 'DECIMAL(9,3)'],
    ['DECIMAL(38,10)', 'BIGINT[]'],
    ['DECIMAL(38,10)', 'DECIMAL(29,0)'],
    ['DOUBLE', 'BIGINT'],
    ['DOUBLE', 'DECIMAL(16,3)'],
    ['FLOAT', 'INTEGER'],
    ['DATE', 'TIMESTAMP'],
    ['TIMESTAMP WITH TIME ZONE', 'DATE'],
    ['TIMESTAMP', 'TIMESTAMP WITH TIME ZONE'],
    ['INTEGER', 'INTEGER[]'],
    ['INTEGER[]', 'INTEGER'],
    ['STRUCT(x INTEGER)', 'MAP(VARCHAR, INTEGER)'],
    ['MAP(INTEGER, INTEGER)', 'MAP(BIGINT, INTEGER)'],
  ])('keeps the type %s when values of %s must be checked', (before, after) => {
    const { schema } = append({ a: before }, { a: after })
    expect(types(schema)).toEqual({ a: before })
    expect(doubtsOf(columns({ a: after }), schema)).toMatchObject([{ tableType: expect.any(String) }])
  })

  test('names a nested field whose values must be checked by its path', () => {
    const { schema } = append({ a: 'STRUCT(b INTEGER[])' }, { a: 'STRUCT(b VARCHAR[])' })
    expect(doubtsOf(columns({ a: 'STRUCT(b VARCHAR[])' }), schema)).toEqual([
      { column: 'a.b.element', tableType: 'INTEGER', newType: 'VARCHAR' },
    ])
  })

  test("makes another engine's required columns optional and drops identifier fields", () => {
    const schema: Schema = {
      type: 'struct',
      'schema-id': 0,
      'identifier-field-ids': [1],
      fields: [{ id: 1, name: 'a', required: true, type: 'int', doc: 'the key' }],
    }
    expect(schemaForAppend(columns({ a: 'INTEGER' }), { schema, lastColumnId: 1 }).schema).toEqual({
      type: 'struct',
      'schema-id': 1,
      fields: [{ id: 1, name: 'a', required: false, type: 'int', doc: 'the key' }],
    })
  })
})

describe('replace', () => {
  test('keeps ids by column name and never reuses old ids', () => {
    const next = replace({ a: 'INTEGER', b: 'VARCHAR', c: 'DATE' }, { d: 'DATE', C: 'DATE', a: 'BIGINT' })
    expect(ids(next.schema)).toEqual({ d: 4, C: 3, a: 1 })
    expect(next).toMatchObject({ isChanged: true, lastColumnId: 4 })
  })

  test('keeps the ids of nested fields', () => {
    const next = replace(
      { a: 'STRUCT(x INTEGER, y DATE)[]', m: 'MAP(VARCHAR, STRUCT(z FLOAT))' },
      { a: 'STRUCT(y DATE, n TIME)[]', m: 'MAP(VARCHAR, STRUCT(z DOUBLE))' },
    )
    const before = table({ a: 'STRUCT(x INTEGER, y DATE)[]', m: 'MAP(VARCHAR, STRUCT(z FLOAT))' })
    const previousIds = ids(before.schema)
    delete previousIds['a.element.x']
    expect(ids(next.schema)).toEqual({ ...previousIds, 'a.element.n': before.lastColumnId + 1 })
  })

  test.each([
    ['BIGINT', 'INTEGER'],
    ['INTEGER', 'VARCHAR'],
    ['DECIMAL(9,2)', 'DECIMAL(5,2)'],
    ['INTEGER[]', 'INTEGER'],
    ['INTEGER[]', 'VARCHAR[]'],
    ['STRUCT(x INTEGER)', 'INTEGER'],
  ])('gives a new id when %s becomes %s', (before, after) => {
    const { schema } = replace({ a: before }, { a: after })
    expect(schema.fields[0]?.id).toBe(table({ a: before }).lastColumnId + 1)
  })

  test('never reuses the ids of dropped columns', () => {
    const first = table({ a: 'INTEGER', b: 'INTEGER' })
    const second = schemaForReplace(columns({ a: 'INTEGER' }), first)
    const third = schemaForReplace(columns({ a: 'INTEGER', b: 'INTEGER' }), second)
    expect(ids(third.schema)).toEqual({ a: 1, b: 3 })
  })
})
