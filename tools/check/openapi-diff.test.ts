import { expect, test } from 'bun:test'
import { uncorrected } from './openapi-corrections.ts'
import { breakingChanges } from './openapi-diff.ts'
import type { Json } from './openapi-schema.ts'

interface Parts {
  request?: Json
  response?: Json
  parameters?: Json[]
  isBodyRequired?: boolean
  status?: string
  path?: string
  method?: string
  operationId?: string
  security?: Json[]
}
const documentOf = (parts: Parts): Json => {
  const { request, response, parameters = [], isBodyRequired = true, status = '200' } = parts
  const json = (schema: Json) => ({ 'application/json': { schema } })
  return {
    paths: {
      [parts.path ?? '/api/v1/things']: {
        [parts.method ?? 'post']: {
          operationId: parts.operationId ?? 'postThings',
          parameters,
          ...(parts.security ? { security: parts.security } : {}),
          ...(request ? { requestBody: { required: isBodyRequired, content: json(request) } } : {}),
          responses: { [status]: { description: '', ...(response ? { content: json(response) } : {}) } },
        },
      },
    },
  }
}
const between = (before: Parts, after: Parts) => breakingChanges(documentOf(before), documentOf(after))
const request = (before: Json, after: Json) => between({ request: before }, { request: after })
const response = (before: Json, after: Json) => between({ response: before }, { response: after })
const object = (properties: Json, required: string[] = []): Json => ({ type: 'object', properties, required })
const text = { type: 'string' }
const at = 'POST /api/v1/things'

test('a removed path, operation or response is reported', () => {
  expect(between({}, { path: '/api/v1/others' })).toEqual(['/api/v1/things: the path is gone'])
  expect(between({}, { method: 'put' })).toEqual([`${at}: the operation is gone`])
  expect(between({}, { status: '201' })).toEqual([`${at}: response 200 is gone`])
  expect(between({ response: text }, {})).toEqual([`${at}: response 200: application/json is gone`])
  expect(between({}, { operationId: 'makeThing' })[0]).toContain("operationId 'postThings' has become")
})

test('a credential that was sufficient must stay sufficient', () => {
  const [key, token] = [{ Key: [] }, { Token: [] }]
  expect(between({ security: [key] }, { security: [token, key] })).toEqual([])
  expect(between({ security: [key] }, { security: [] })).toEqual([])
  expect(between({ security: [key, token] }, { security: [key] })).toEqual([
    `${at}: Token is no longer sufficient`,
  ])
  expect(between({ security: [key] }, { security: [{ ...key, ...token }] })).toEqual([
    `${at}: Key is no longer sufficient`,
  ])
  expect(between({}, { security: [key] })).toEqual([`${at}: no credential is no longer sufficient`])
})

test('the meaning of an omitted field must not change', () => {
  const field = (schema: Json) => object({ a: { ...text, ...schema } })
  expect(request(field({}), field({ default: 'x' }))).toEqual([])
  expect(request(field({ default: 'x' }), field({ default: 'y' }))).toEqual([
    `${at}: body.a has the default "y", not "x"`,
  ])
  expect(request(field({ default: 'x' }), field({}))).toEqual([`${at}: body.a has the default none, not "x"`])
})

test('paths outside of the versioned API may change', () => {
  expect(between({ path: '/health' }, { path: '/healthy' })).toEqual([])
})

test('a response may gain fields and values but not lose any', () => {
  const before = object({ id: text, size: { type: 'integer' }, kind: { ...text, enum: ['a'] } }, ['id'])
  const gained = object(
    { id: text, size: { type: 'integer' }, kind: { ...text, enum: ['a', 'b'] }, note: text },
    ['id', 'note'],
  )
  expect(response(before, gained)).toEqual([])
  expect(response(gained, before)).toEqual([`${at}: response 200 lost its field 'note'`])
  expect(response(object({ id: text }), object({ id: { type: 'integer' } }))).toEqual([
    `${at}: response 200.id was string and is integer`,
  ])
  expect(response(object({ id: text }, ['id']), object({ id: text }))).toEqual([
    `${at}: response 200 may omit its field 'id'`,
  ])
  expect(response(text, { ...text, nullable: true })).toEqual([`${at}: response 200 may now be null`])
  expect(
    response({ type: 'array', items: object({ a: text }) }, { type: 'array', items: object({}) }),
  ).toEqual([`${at}: response 200[] lost its field 'a'`])
})

test('a request may gain optional fields but no required ones', () => {
  expect(request(object({ a: text }), object({ a: text, b: text }))).toEqual([])
  expect(request(object({ a: text }, ['a']), object({ a: text }))).toEqual([])
  expect(request(object({ a: text }), object({ a: text, b: text }, ['b']))).toEqual([
    `${at}: body has the new required field 'b'`,
  ])
  expect(request(object({ a: text }), object({ a: text }, ['a']))).toEqual([
    `${at}: body now requires its field 'a'`,
  ])
  expect(request(object({ a: text }), object({}))).toEqual([`${at}: body lost its field 'a'`])
  expect(request(object({}), { ...object({}), additionalProperties: false })).toEqual([
    `${at}: body no longer accepts unknown fields`,
  ])
})

test('limits of a request may widen but not narrow', () => {
  const narrowings: [Json, Json, string][] = [
    [{ ...text, maxLength: 10 }, { ...text, maxLength: 9 }, 'has a lower maxLength: 9, not 10'],
    [text, { ...text, maxLength: 9 }, 'has a lower maxLength: 9, not none'],
    [{ type: 'integer', minimum: 0 }, { type: 'integer', minimum: 1 }, 'has a higher minimum: 1, not 0'],
    [{ ...text, enum: ['a', 'b'] }, { ...text, enum: ['a'] }, "no longer accepts 'b'"],
    [text, { ...text, enum: ['a'] }, 'now accepts only a'],
    [text, { ...text, pattern: '^a' }, 'has another pattern: ^a, not none'],
    [{ ...text, nullable: true }, text, 'may no longer be null'],
    [{ type: 'number' }, { type: 'integer' }, 'was number and is integer'],
  ]
  for (const [wide, narrow, what] of narrowings) {
    expect(request(wide, narrow)).toEqual([`${at}: body ${what}`])
    expect(request(narrow, wide)).toEqual([])
  }
})

test('an optional body or parameter may not become required', () => {
  const body = { request: object({}) }
  expect(between({ ...body, isBodyRequired: false }, body)).toEqual([`${at}: the body has become required`])
  expect(between({}, body)).toEqual([`${at}: the body is new and required`])
  const parameter = { in: 'query', name: 'q', schema: text }
  expect(between({ parameters: [parameter] }, { parameters: [{ ...parameter, required: true }] })).toEqual([
    `${at}: query parameter 'q' has become required`,
  ])
  expect(between({}, { parameters: [parameter] })).toEqual([])
  expect(between({}, { parameters: [{ ...parameter, required: true }] })).toEqual([
    `${at}: query parameter 'q' is new and required`,
  ])
  expect(between({ parameters: [parameter] }, {})).toEqual([`${at}: query parameter 'q' is gone`])
})

test('alternatives are compared by content, not by order', () => {
  const [a, b, c] = [text, { type: 'integer' }, { type: 'boolean' }]
  expect(request({ anyOf: [a, b] }, { anyOf: [c, b, a] })).toEqual([])
  expect(request({ anyOf: [a, b] }, { anyOf: [b] })).toEqual([
    `${at}: body no longer accepts its alternative '1' as it was`,
  ])
  expect(response({ anyOf: [a, b] }, a)).toEqual([])
  expect(response(a, { anyOf: [a, b] })).toEqual([`${at}: response 200 has a new alternative`])
})

test('references are followed, including recursive ones', () => {
  const tree = (name: Json): Json => ({
    ...documentOf({ response: { $ref: '#/components/schemas/Tree' } }),
    components: {
      schemas: {
        Tree: object({ name, children: { type: 'array', items: { $ref: '#/components/schemas/Tree' } } }),
      },
    },
  })
  expect(breakingChanges(tree(text), tree(text))).toEqual([])
  expect(breakingChanges(tree(text), tree({ type: 'integer' }))).toEqual([
    `${at}: response 200.name was string and is integer`,
  ])
})

test('null and constants of OpenAPI 3.1 equal those of 3.0', () => {
  const was = object({
    a: { ...text, nullable: true },
    b: { ...text, enum: ['x'] },
    c: { ...text, nullable: true },
  })
  const is = object({
    a: { type: ['string', 'null'] },
    b: { ...text, const: 'x' },
    c: { anyOf: [text, { type: 'null' }] },
  })
  expect([...request(was, is), ...response(was, is)]).toEqual([])
  expect(request(was, object({ a: text, b: { ...text, const: 'y' }, c: text }))).toEqual([
    `${at}: body.a may no longer be null`,
    `${at}: body.b no longer accepts 'x'`,
    `${at}: body.c may no longer be null`,
  ])
})

test('an object split by a discriminator is compared per value', () => {
  const of = (kind: string, more: Json = {}, required: string[] = []) =>
    object({ kind: { ...text, const: kind }, id: text, ...more }, ['kind', 'id', ...required])
  const union = (...alternatives: Json[]) => ({
    oneOf: alternatives,
    discriminator: { propertyName: 'kind' },
  })
  const was = object({ kind: { ...text, enum: ['a', 'b'] }, id: text, url: text }, ['kind', 'id'])
  const is = union(of('a', { url: text }), of('b'))
  // The optional field now belongs to one of the values.
  expect(response(was, is)).toEqual([])
  expect(response(was, union(of('a'), of('b')))).toEqual([
    `${at}: response 200[kind=a] lost its field 'url'`,
    `${at}: response 200[kind=b] lost its field 'url'`,
  ])
  expect(request(was, union(of('a', { url: text }), of('b', { url: text })))).toEqual([])
  expect(request(was, union(of('a', { url: text }, ['url'])))).toEqual([
    `${at}: body.kind no longer accepts 'b'`,
    `${at}: body[kind=a] now requires its field 'url'`,
  ])
})

test('a correction accepts its change, and fails without a change', () => {
  const corrections = [{ change: /: body\.a was string/, reason: 'It was an integer all along.' }]
  expect(uncorrected(['x: body.a was string and is integer', 'x: body.b is gone'], corrections)).toEqual([
    'x: body.b is gone',
  ])
  expect(uncorrected([], corrections)[0]).toContain('matches no change')
})
