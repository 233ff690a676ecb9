import { expect, test } from 'bun:test'
import { Type as t } from '@sinclair/typebox'
import { AppError } from '../core/errors.ts'
import {
  bodyFieldsOf,
  checkFields,
  checkParameters,
  NO_FIELDS,
  nearestOf,
  refuseChanged,
} from './unknown-fields.ts'

const Config = t.Union([
  t.Object({ cron_expr: t.String() }),
  t.Object({ zone_name: t.String(), pattern: t.String() }),
])
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

const fieldsOf = (answers: readonly unknown[] = []) => {
  const fields = bodyFieldsOf(Body, answers)
  if (fields === null) throw new Error('the body has fields')
  return fields
}

/** The message of the 400 that `check` throws; null: it throws nothing. */
function refusalOf(check: () => unknown): string | null {
  try {
    check()
    return null
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    expect([error.status, error.code]).toEqual([400, 'INVALID_ARGUMENT'])
    return error.message
  }
}
const messageOf = (body: object) => refusalOf(() => checkFields(body, fieldsOf()))

test('refuses an unknown field at every level, and lists the known ones', () => {
  const known = 'Known: `enabled`, `type`, `config`, `columns`, `names`'
  expect(messageOf({ comment: 1 })).toBe(`unknown field \`comment\`. ${known}`)
  expect(messageOf({ enabled: true, enbaled: false })).toBe(
    `unknown field \`enbaled\`, did you mean \`enabled\`? ${known}`,
  )
  expect(messageOf({ config: { zoneName: 'a' } })).toBe(
    'unknown field `config.zoneName`, did you mean `config.zone_name`? Known: `cron_expr`, `zone_name`, `pattern`',
  )
  expect(messageOf({ columns: [{ name: 'a' }, { kind: 'b' }] })).toBe(
    'unknown field `columns.1.kind`. Known: `name`, `mode`',
  )
  expect(refusalOf(() => checkFields({ force: true }, NO_FIELDS))).toBe('unknown field `force`. Known: none')
})

test('a long name is shown in part, and compared with none', () => {
  expect(messageOf({ ['x'.repeat(100_000)]: 1 })).toStartWith(
    `unknown field \`${'x'.repeat(64)}...\`. Known: `,
  )
})

test('accepts free names and leaves values of another shape to the schema', () => {
  expect(messageOf({ config: 'text', columns: {}, enabled: [{ enable: 1 }] })).toBeNull()
  expect(messageOf({ names: { name: { labl: 1 } } })).toBeNull()
})

test('fields of the own answer may be sent back with their present values only', () => {
  const fields = fieldsOf([Answer])
  const present = { enabled: true, enabled_s: 'now', config: { pattern: '*', pattern_s: [{ a: 1 }] } }
  const refusal = (body: object) => refusalOf(() => refuseChanged(checkFields(body, fields), present))
  expect(refusal(present)).toBeNull()
  expect(refusal({ enabled: false, enabled_s: 'now' })).toBeNull()
  expect(refusal({ enabled_s: 'then' })).toBe(
    'enabled_s: this request cannot change the field: leave it out, or send its present value, "now"',
  )
  expect(refusal({ config: { pattern_s: [{ a: 2 }] } })).toMatch(
    /^config\.pattern_s: .*value, \[\{"a":1\}\]$/,
  )
  expect(refusalOf(() => refuseChanged(checkFields({ enabled_s: 'now' }, fields), {}))).toMatch(/no value$/)
  expect(refusal({ comment: 1 })).toMatch(/^unknown field `comment`/)
  expect(messageOf(present)).toMatch(/^unknown field `enabled_s`, did you mean `enabled`\?/)
})

test('refuses unknown query parameters, except those that begin with an underscore', () => {
  const refusal = (query: string) => refusalOf(() => checkParameters(query, new Set(['limit', 'search'])))
  for (const query of ['', 'limit=1&search=a', 'limit=1&limit=2', '_=1&_cache%5B%5D=2', '&&', 'se%61rch=x'])
    expect([query, refusal(query)]).toEqual([query, null])
  expect(refusal('branch=x')).toBe('unknown query parameter `branch`. Known: `limit`, `search`')
  expect(refusal('limit=1&limits=2')).toBe(
    'unknown query parameter `limits`, did you mean `limit`? Known: `limit`, `search`',
  )
  expect(refusal('limit[]=1')).toMatch(/^unknown query parameter `limit\[\]`/)
  expect(refusalOf(() => checkParameters('x', new Set()))).toBe('unknown query parameter `x`. Known: none')
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
