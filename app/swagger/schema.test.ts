import { expect, test } from 'bun:test'
import { Type as t } from '@sinclair/typebox'
import { documentedAs } from '../core/documented.ts'
import { literals, nullable } from '../core/names.ts'
import { makeSchemaWriter } from './schema.ts'

const Size = literals(['small', 'large'], { title: 'Size' })
const Box = t.Object({ size: Size, label: t.String({ default: 'none' }) }, { title: 'Box' })
const reference = (name: string) => ({ $ref: `#/components/schemas/${name}` })

test('writes each titled schema once, and refers to it', () => {
  const writer = makeSchemaWriter()
  const List = t.Object({ boxes: t.Array(Box), first: t.Optional(Box) })
  expect(writer.write(List)).toEqual({
    type: 'object',
    required: ['boxes'],
    properties: { boxes: { type: 'array', items: reference('Box') }, first: reference('Box') },
  })
  expect(writer.components()).toEqual({
    Box: {
      type: 'object',
      required: ['size'],
      properties: { size: reference('Size'), label: { type: 'string', default: 'none' } },
    },
    Size: { type: 'string', enum: ['small', 'large'] },
  })
  expect(writer.resolve(reference('Size'))).toEqual({ type: 'string', enum: ['small', 'large'] })
})

test('refuses two different schemas with one title', () => {
  const writer = makeSchemaWriter()
  writer.write(Box)
  expect(() => writer.write(t.Object({}, { title: 'Box' }))).toThrow('two schemas have the title Box')
})

test('writes null as a type, or as an alternative to a component', () => {
  const { write } = makeSchemaWriter()
  expect(write(nullable(t.Integer({ minimum: 1 })))).toEqual({ type: ['integer', 'null'], minimum: 1 })
  expect(write(nullable(Box))).toEqual({ anyOf: [reference('Box'), { type: 'null' }] })
  expect(write(nullable(literals(['a', 'b'])))).toEqual({
    anyOf: [{ type: 'string', enum: ['a', 'b'] }, { type: 'null' }],
  })
})

test('writes a discriminated union as oneOf with a mapping', () => {
  const of = (kind: string) => t.Object({ kind: t.Literal(kind) }, { title: `Of${kind}` })
  const union = t.Union([of('a'), of('b')], { title: 'Either', discriminator: { propertyName: 'kind' } })
  const writer = makeSchemaWriter()
  expect(writer.write(union)).toEqual(reference('Either'))
  expect(writer.resolve(reference('Either'))).toEqual({
    oneOf: [reference('Ofa'), reference('Ofb')],
    discriminator: {
      propertyName: 'kind',
      mapping: { a: '#/components/schemas/Ofa', b: '#/components/schemas/Ofb' },
    },
  })
})

test('shows the documented schema instead of the checked schema', () => {
  const { write } = makeSchemaWriter()
  expect(write(documentedAs(t.String(), t.Integer({ minimum: 1 })))).toEqual({ type: 'integer', minimum: 1 })
})
