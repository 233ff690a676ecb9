import { expect, test } from 'bun:test'
import { Type as t } from '@sinclair/typebox'
import { documentedAs } from './documented.ts'
import { AppError } from './errors.ts'
import { bodyFieldsOf, nearestOf, refuseMisspelt } from './unknown-fields.ts'

const Config = documentedAs(
  t.Unknown(),
  t.Union([t.Object({ cron_expr: t.String() }), t.Object({ zone_name: t.String(), pattern: t.String() })]),
)
const Body = t.Object({
  enabled: t.Optional(t.Boolean()),
  type: t.String(),
  config: Config,
  columns: t.Array(t.Object({ name: t.String(), mode: t.String() })),
  names: t.Record(t.String(), t.Object({ label: t.String() })),
})
const Answer = t.Object({
  ...Body.properties,
  enabled_s: t.String(),
  config: t.Object({ pattern_s: t.String() }),
})

function messageOf(body: object, answers: readonly unknown[] = []): string | null {
  const fields = bodyFieldsOf(Body, answers)
  if (fields === null) throw new Error('the body has fields')
  try {
    refuseMisspelt(body, fields)
    return null
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    expect([error.status, error.code]).toEqual([400, 'INVALID_ARGUMENT'])
    return error.message
  }
}

test('refuses a field within two letters of a known field, at every level', () => {
  expect(messageOf({ enable: false })).toBe('unknown field `enable`, did you mean `enabled`?')
  expect(messageOf({ enabled: true, enbaled: false })).toBe(
    'unknown field `enbaled`, did you mean `enabled`?',
  )
  expect(messageOf({ config: { zoneName: 'a' } })).toBe(
    'unknown field `config.zoneName`, did you mean `config.zone_name`?',
  )
  expect(messageOf({ columns: [{ name: 'a' }, { nmae: 'b' }] })).toBe(
    'unknown field `columns.nmae`, did you mean `columns.name`?',
  )
})

test('ignores other unknown fields, free names and values of another shape', () => {
  expect(
    messageOf({ comment: 1, x: 2, ty: 3, config: 'text', columns: {}, enabled: [{ enable: 1 }] }),
  ).toBeNull()
  expect(messageOf({ names: { name: { labl: 1 } } })).toBeNull()
})

test('accepts fields that the same address returns', () => {
  const echo = { enabled: true, enabled_s: 'now', config: { pattern: '*', pattern_s: '*' } }
  expect(messageOf(echo)).toBe('unknown field `enabled_s`, did you mean `enabled`?')
  expect(messageOf(echo, [Answer])).toBeNull()
})

test('compares a bounded number of names', () => {
  const body = Object.fromEntries(Array.from({ length: 100_000 }, (_, index) => [`field_${index}`, 1]))
  expect(messageOf({ ...body, enable: 1 })).toBeNull()
})

test('a short name must match in most letters', () => {
  expect(nearestOf('tag', ['tags'])).toBe('tags')
  expect(nearestOf('nmae', ['name'])).toBe('name')
  expect(nearestOf('mane', ['name'])).toBeNull()
  expect(nearestOf('ids', ['id'])).toBeNull()
  expect(nearestOf('game_', ['name'])).toBeNull()
  expect(nearestOf('descripton', ['name', 'description'])).toBe('description')
  expect(nearestOf('limits', ['limited', 'limit'])).toBe('limit')
})
