// Requests generated from the API's own document, valid and invalid. No request causes a 500, the document declares every
// answer, and an error names the wrong field. The service is the test's own, because some requests delete things and change
// settings. FUZZ_SEED repeats a run; FUZZ_SECONDS sets its length.
import { Agent, request as httpRequest } from 'node:http'
import { type APIRequestContext, expect, request as newRequest, test } from '@playwright/test'
import fc from 'fast-check'
import {
  type Json,
  newAjv,
  type Operation,
  operationsOf,
  type Parameter,
  type Schema,
  type ValidatorOf,
  validatorsOf,
} from '../kit/document.ts'
import { type OwnService, startOwnService } from '../kit/own-service.ts'
import { fresh, getJson, newPipeline, newZone, writeFile } from '../kit/resources.ts'
import { newTable } from '../kit/runs.ts'
import { addTrigger } from '../kit/triggers.ts'

const SECONDS = Number(process.env.FUZZ_SECONDS || 120)
/** Each run uses a new seed, because a fixed one finds nothing new. */
const SEED = Number(process.env.FUZZ_SEED || Date.now() % 2 ** 31)
const AT_ONCE = 4
/** Minimum number of requests per parallel loop, however long a slow machine takes. */
const REQUESTS_AT_LEAST = 150

interface Sent {
  operation: Operation
  target: string
  headers: Record<string, string>
  body: string | Buffer | null
  /** The one part that was made wrong. `isSure`: the schema certainly refuses the value. */
  fault: { place: 'body'; field: string; isSure: boolean } | { place: 'syntax' } | null
}
interface Answer {
  status: number
  type: string
  text: string
}

let service: OwnService
let request: APIRequestContext
let operations: Operation[]
let validatorOf: ValidatorOf
/** Existing values of parameters and fields, by name. Requests may delete only the values in `doomed`. */
let existing: Record<string, string[]>
let doomed: Record<string, string[]>

test.beforeAll(async () => {
  service = await startOwnService({})
  request = await newRequest.newContext({ baseURL: service.url })
  const document = await getJson(request, '/swagger/json')
  operations = operationsOf(document)
  validatorOf = validatorsOf()
  await populate()
})
test.afterAll(async () => {
  await request?.dispose()
  await service?.stop()
})

test('generated requests get declared answers, and never a 500 @convention.generated', async () => {
  test.setTimeout(SECONDS * 1000 + 300_000)
  const agent = new Agent({ keepAlive: true, maxSockets: AT_ONCE * 2 })
  const countOfStatus = new Map<number, number>()
  const property = fc.asyncProperty(fc.oneof(...operations.map(requestTo)), async (sent) => {
    const answer = await send(agent, sent)
    countOfStatus.set(answer.status, (countOfStatus.get(answer.status) ?? 0) + 1)
    const problem = problemOf(sent, answer)
    if (problem !== null) throw new Error(`${problem}\n${shown(sent)}\n${shownAnswer(answer)}`)
  })
  // No shrinking: requests change the state that later requests meet, so a smaller case proves nothing.
  const sending = (seed: number, until: fc.Parameters<[Sent]>) =>
    Promise.all(
      Array.from({ length: AT_ONCE }, (_, turn) =>
        fc.check(property, { seed: seed + turn, endOnFailure: true, ...until }),
      ),
    )
  const results = [
    ...(await sending(SEED, { numRuns: REQUESTS_AT_LEAST })),
    ...(await sending(SEED + AT_ONCE, {
      numRuns: 10_000_000,
      interruptAfterTimeLimit: SECONDS * 1000,
      markInterruptAsFailure: false,
    })),
  ]
  agent.destroy()
  const total = [...countOfStatus.values()].reduce((sum, count) => sum + count, 0)
  const statuses = [...countOfStatus]
    .sort(([a], [b]) => a - b)
    .map(([status, count]) => `${status}: ${count}`)
  console.log(`FUZZ_SEED=${SEED} ${total} requests in ${SECONDS} s (${statuses.join(', ')})`)
  const failures = results.flatMap(({ failed, errorInstance }) => (failed ? [String(errorInstance)] : []))
  expect(failures, `FUZZ_SEED=${SEED}`).toEqual([])
  expect(total).toBeGreaterThan(operations.length / 2)
  // Some requests were accepted and some refused.
  for (const status of [200, 201, 400, 404])
    expect(countOfStatus.get(status) ?? 0, `${status}`).toBeGreaterThan(0)
})

/** A dot segment, also with percent signs. Servers resolve it, so the request has another path. */
const DOTS = /\/(\.|%2e){1,2}(\/|\?|$)/i

function problemOf({ operation, target, fault }: Sent, { status, type, text }: Answer): string | null {
  if (status === 500) return 'this is a 500'
  if (DOTS.test(target)) return null
  // An encoded slash or an empty segment may turn a generated path into another route.
  const isElsewhere = status === 404 || status === 405
  if (!(String(status) in operation.responses) && !isElsewhere) return `${status} is not declared`
  if (type.includes('text/event-stream')) return null
  if (status >= 400 && !(status === 422 && operation.path.endsWith('/publish'))) {
    const { error } = parsed(text) as { error?: Json }
    if (typeof error !== 'object' || Object.keys(error ?? {}).join() !== 'code,type,message')
      return 'this is not the envelope'
    const message = String(error.message)
    if (message === '' || /\[object |node_modules|\.ts:\d/.test(message)) return 'the message says nothing'
    if (
      status === 400 &&
      fault?.place === 'body' &&
      fault.isSure &&
      !message.includes(fault.field) &&
      !isOfParameter(operation, message)
    )
      return `the message does not name '${fault.field}'`
  } else if (!isElsewhere) {
    const validate = validatorOf(operation, String(status))
    const problem = validate?.(parsed(text))
    if (problem) return `the answer is not what ${status} declares: ${problem}`
  }
  if (fault?.place === 'body' && fault.isSure && status < 300)
    return `'${fault.field}' is wrong, and was taken`
  if (fault?.place === 'syntax' && status < 300) return 'this is no JSON, and was taken'
  return null
}

/** True if the message is about a parameter or the path. Both may be wrong too, and are checked before the body. */
const isOfParameter = ({ parameters }: Operation, message: string) =>
  message.startsWith('unknown query parameter') ||
  ['path', ...parameters.map(({ name }) => name)].some((name) =>
    message.toLowerCase().startsWith(`${name}: `),
  )

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
const shown = ({ operation, target, headers, body, fault }: Sent) =>
  `${operation.method} ${target}\n${JSON.stringify(headers)}\n${String(body).slice(0, 600)}\n${JSON.stringify(fault)}`
const shownAnswer = ({ status, text }: Answer) => `${status} ${text.slice(0, 600)}`

/** Sends the target exactly as written, with encoded dots; `fetch` would normalise the address. */
function send(agent: Agent, { operation, target, headers, body }: Sent): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const { hostname, port } = new URL(service.url)
    const clientRequest = httpRequest(
      { agent, hostname, port, method: operation.method, path: target, headers, timeout: 120_000 },
      (response) => {
        const status = response.statusCode ?? 0
        const type = response.headers['content-type'] ?? ''
        if (type.includes('text/event-stream')) {
          response.destroy()
          resolve({ status, type, text: '' })
          return
        }
        const chunks: Buffer[] = []
        response.on('data', (chunk: Buffer) => chunks.push(chunk))
        response.on('end', () => resolve({ status, type, text: Buffer.concat(chunks).toString() }))
        response.on('error', reject)
      },
    )
    clientRequest.on('timeout', () =>
      clientRequest.destroy(new Error(`no answer: ${operation.method} ${target}`)),
    )
    clientRequest.on('error', reject)
    if (body !== null) clientRequest.setHeader('content-length', Buffer.byteLength(body))
    clientRequest.end(body ?? undefined)
  })
}

/** Creates resources, so that many generated requests reach something that exists. */
async function populate() {
  const namespaces: string[] = []
  for (let turn = 0; turn < 12; turn++) {
    const name = fresh('doomed')
    await request.post('/api/v1/namespaces', { data: { name } })
    namespaces.push(name)
  }
  const table = await newTable(request, { namespace: 'default', layer: 'silver' }, 'select 1 as a')
  const pipelines = await Promise.all(
    Array.from({ length: 12 }, () => newPipeline(request, { layer: 'silver' })),
  )
  await writeFile(request, `${table.prefix}notes.md`, '# Notes')
  await request.post(`${table.url}/publish`)
  const test = { name: 'no-nulls', sql: 'select 0', severity: 'error' }
  await request.post(`${table.url}/tests`, { data: test })
  const { runs } = await getJson(request, '/api/v1/runs')
  const zone = await newZone(request)
  const file = await zone.upload('a.csv')
  const trigger = await addTrigger(request, table, 'webhook', {})
  const schedule = await request.post('/api/v1/schedules', {
    data: { namespace: 'default', layer: 'silver', pipeline: table.name, cron: '0 0 1 1 *' },
  })
  const { id: scheduleId } = await schedule.json()
  existing = {
    ns: ['default'],
    namespace: ['default'],
    layer: ['silver'],
    name: [table.name, zone.name],
    pipeline: [table.name],
    zone_name: [zone.name],
    id: [...runs.map(({ id }: { id: string }) => id), trigger.id, scheduleId, file.id],
    path: [`${table.prefix}pipeline.sql`, `${table.prefix}notes.md`],
    prefix: [table.prefix, 'default/'],
    sql: [`select * from silver."${table.name}"`, 'select 1 as a, null as b'],
    cron: ['0 6 * * *'],
    cron_expr: ['0 6 * * *'],
    testName: ['no-nulls'],
    filename: ['a.csv'],
    number: ['1'],
    drawing: ['run.svg'],
    code: ['select 1 as a'],
  }
  doomed = {
    ...existing,
    ns: ['default'],
    name: [...namespaces, ...pipelines.map(({ name }) => name)],
    id: [],
    path: [],
  }
}

// Generated requests

const ODD_TEXTS = [
  '',
  ' ',
  '\u0000',
  'a\u0000b',
  '\u202Egnp.exe',
  '\uD800',
  '😀'.repeat(40),
  'é́́́',
  '\u2028',
  '../../etc/passwd',
  '%2e%2e%2f',
  '%252e%252e/',
  'null',
  '-1',
  '1e309',
  '9'.repeat(400),
  "'; drop table run; --",
  '{{ 7 * 7 }}',
  'x'.repeat(20_000),
]
const ODD_SEGMENTS = [
  '%00',
  '%2e%2e',
  '%252e%252e',
  '..%2f..%2f',
  '%ff',
  '%',
  '%zz',
  '%F0%9F%98%80',
  '%5c',
  'x'.repeat(4000),
]
const ODD_NUMBERS = [-1, 0, 0.5, 2 ** 31, 2 ** 53, 2 ** 63, -(2 ** 63), 1e300, Number.MAX_VALUE]
const WRONG: Record<string, fc.Arbitrary<unknown>> = {
  string: fc.constantFrom<unknown>(7, true, {}, ['x']),
  integer: fc.constantFrom<unknown>('7', 1.5, true, {}, [1], 'NaN'),
  number: fc.constantFrom<unknown>('7', true, {}),
  boolean: fc.constantFrom<unknown>('true', 1, {}, []),
  array: fc.constantFrom<unknown>('x', 7, { 0: 'x' }),
  object: fc.constantFrom<unknown>('x', 7, true),
}

function requestTo(operation: Operation): fc.Arbitrary<Sent> {
  const names = operation.method === 'DELETE' ? doomed : existing
  const inPath = operation.parameters.filter((parameter) => parameter.in === 'path')
  const inQuery = operation.parameters.filter((parameter) => parameter.in === 'query')
  const inHeader = operation.parameters.filter((parameter) => parameter.in === 'header')
  return fc
    .record({
      segments: fc.tuple(...inPath.map((parameter) => segmentOf(parameter, names))),
      query: fc.tuple(...inQuery.map((parameter) => queryOf(parameter, names))),
      headers: fc.tuple(...inHeader.map((parameter) => headerOf(parameter))),
      content: bodyOf(operation, names),
    })
    .map(({ segments, query, headers, content }) => {
      const segmentByName = new Map(inPath.map(({ name }, index) => [name, segments[index] ?? '']))
      const path = operation.path.replace(/\{(\w+)\}/g, (_, name) => segmentByName.get(name) ?? '')
      const search = query.filter((one) => one !== null).join('&')
      return {
        operation,
        target: search === '' ? path : `${path}?${search}`,
        headers: { ...Object.fromEntries(headers.filter((one) => one !== null)), ...content.headers },
        body: content.body,
        fault: content.fault,
      }
    })
}

const mostly = <T>(usual: fc.Arbitrary<T>, odd: fc.Arbitrary<T>) =>
  fc.oneof({ arbitrary: usual, weight: 6 }, { arbitrary: odd, weight: 1 })

function segmentOf({ name, schema, example }: Parameter, names: typeof existing): fc.Arbitrary<string> {
  const there = names[name] ?? []
  const fits = fittingText(schema, example).map(encodeURIComponent)
  const usual = there.length > 0 ? mostly(fc.constantFrom(...there).map(encodeURIComponent), fits) : fits
  return mostly(usual, fc.constantFrom(...ODD_SEGMENTS))
}

function queryOf(
  { name, schema, example, required }: Parameter,
  names: typeof existing,
): fc.Arbitrary<string | null> {
  const there = names[name] ?? []
  const fits = there.length > 0 ? fc.constantFrom(...there) : fittingText(schema, example)
  const present = mostly(fits, fc.constantFrom(...ODD_TEXTS)).map(
    (value) => `${name}=${encodeURIComponent(wellFormed(value).slice(0, 2_000))}`,
  )
  const broken = fc.constantFrom(`${name}=%ff`, `${name}=%`, name, `${name}=1&${name}=2`, `${name}[]=1`)
  return fc.oneof(
    { arbitrary: fc.constant(null), weight: required ? 1 : 6 },
    { arbitrary: present, weight: 5 },
    { arbitrary: broken, weight: 1 },
  )
}

const headerOf = ({ name, example }: Parameter): fc.Arbitrary<[string, string] | null> =>
  fc.oneof(
    { arbitrary: fc.constant(null), weight: 6 },
    {
      arbitrary: fc
        .constantFrom(String(example ?? '"x"'), '*', '', 'é', 'x'.repeat(300))
        .map((value): [string, string] => [name, value]),
      weight: 1,
    },
  )

interface Content {
  headers: Record<string, string>
  body: string | Buffer | null
  fault: Sent['fault']
}

const json = { 'content-type': 'application/json' }

function bodyOf({ method, body }: Operation, names: typeof existing): fc.Arbitrary<Content> {
  const nothing: Content = { headers: {}, body: null, fault: null }
  if (method === 'GET') return fc.constant(nothing)
  if (body === null)
    return mostly(fc.constant(nothing), fc.constant({ headers: json, body: '{"a":', fault: null }))
  if (body.type === 'multipart/form-data') return formOf(body.schema, names)
  const { schema } = body
  const fits = fitting(schema, names)
  const asJson = (value: unknown, fault: Sent['fault']): Content => ({
    headers: json,
    body: JSON.stringify(value),
    fault,
  })
  const malformed = fc.constantFrom<Content>(
    { headers: json, body: '{"name":', fault: { place: 'syntax' } },
    { headers: json, body: '[1, 2', fault: { place: 'syntax' } },
    { headers: json, body: Buffer.from([0xff, 0xfe, 0x00]), fault: { place: 'syntax' } },
    { headers: json, body: `${'['.repeat(20_000)}`, fault: { place: 'syntax' } },
    { headers: json, body: '[]', fault: null },
    { headers: json, body: '"text"', fault: null },
    { headers: { 'content-type': 'text/plain' }, body: 'text', fault: null },
    { headers: { 'content-type': 'application/xml' }, body: '<a/>', fault: null },
    { headers: { 'content-type': 'multipart/form-data' }, body: '--', fault: null },
    { headers: { 'content-type': 'application/json; charset=latin9' }, body: '{}', fault: null },
    { headers: {}, body: '{}', fault: null },
    nothing,
  )
  return fc.oneof(
    { arbitrary: fits.map((value) => asJson(value, null)), weight: 5 },
    { arbitrary: fits.chain((value) => faulty(schema, value)).map(([v, f]) => asJson(v, f)), weight: 5 },
    { arbitrary: malformed, weight: 1 },
  )
}

/** The type of a schema apart from `null`. */
const typeOf = ({ type }: Schema) => (Array.isArray(type) ? type.find((one) => one !== 'null') : type)
const isNullable = ({ type }: Schema) => Array.isArray(type) && type.includes('null')

/** A valid body with one field made wrong, certainly or possibly. */
function faulty(given: Schema, value: unknown): fc.Arbitrary<[unknown, Sent['fault']]> {
  // The alternatives of a body have the same fields, so the first alternative stands for all.
  const schema = given.oneOf?.[0] ?? given
  const fields = Object.entries(schema.properties ?? {})
  if (fields.length === 0 || typeof value !== 'object') return fc.constant([value, null])
  return fc.constantFrom(...fields).chain(([field, inner]) => {
    const put = (wrong: unknown) => ({ ...(value as Json), [field]: wrong })
    const fault = (isSure: boolean): Sent['fault'] => ({ place: 'body', field, isSure })
    const options: fc.Arbitrary<[unknown, Sent['fault']]>[] = []
    // The document leaves a field with alternatives open, so only the service judges its value.
    const kind = typeOf(inner)
    const wrong = inner.anyOf || inner.oneOf || kind === undefined ? undefined : WRONG[kind]
    if (wrong) options.push(wrong.map((bad) => [put(bad), fault(true)]))
    if (wrong && !isNullable(inner)) options.push(fc.constant([put(null), fault(true)]))
    if (schema.required?.includes(field)) {
      const { [field]: _, ...rest } = value as Json
      options.push(fc.constant([rest, fault(true)]))
    }
    if (kind === 'string')
      options.push(fc.constantFrom(...ODD_TEXTS).map((text) => [put(text), fault(surelyNot(inner, text))]))
    if (kind === 'integer')
      options.push(fc.constantFrom(...ODD_NUMBERS).map((one) => [put(one), fault(surelyNot(inner, one))]))
    options.push(fc.constant([{ ...(value as Json), 'a field of no meaning': '\u0007' }, null]))
    return fc.oneof(...options)
  })
}

const judge = newAjv()
const judges = new WeakMap<Schema, (value: unknown) => boolean>()
function surelyNot(schema: Schema, value: unknown): boolean {
  const validate = judges.get(schema) ?? judge.compile(schema)
  judges.set(schema, validate)
  return !validate(value)
}

function formOf(schema: Schema, names: typeof existing): fc.Arbitrary<Content> {
  const boundary = 'fuzz-line'
  const fieldsOf = Object.keys(schema.properties ?? {}).filter((name) => name !== 'file')
  const part = (head: string, text: string) =>
    `--${boundary}\r\nContent-Disposition: form-data; ${head}\r\n\r\n${text}\r\n`
  return fc
    .record({
      values: fc.tuple(
        ...fieldsOf.map((name) =>
          mostly(fc.constantFrom(...(names[name] ?? ['x'])), fc.constantFrom(...ODD_TEXTS)),
        ),
      ),
      filename: mostly(
        fc.constantFrom('a.csv', 'größe 1.parquet', 'フライト.json'),
        fc.constantFrom('', '..', '../x', 'a\\b', '%2e%2e%2f', 'x'.repeat(700), '\u0001', 'con\u202E.csv'),
      ),
      omitted: mostly(fc.constant(''), fc.constantFrom('file', 'path', 'end')),
      text: fc.string({ maxLength: 200 }),
    })
    .map(({ values, filename, omitted, text }) => ({
      headers: { 'content-type': `multipart/form-data; boundary=${boundary}` },
      body: Buffer.from(
        fieldsOf
          .map((name, at) => (omitted === name ? '' : part(`name="${name}"`, values[at] ?? '')))
          .join('') +
          (omitted === 'file' ? '' : part(`name="file"; filename="${filename}"`, text)) +
          (omitted === 'end' ? '' : `--${boundary}--\r\n`),
      ),
      fault: null,
    }))
}

/** A value that fits the schema: an existing value of this field name, if there is one. */
function fitting(schema: Schema, names: typeof existing, field = ''): fc.Arbitrary<unknown> {
  const there = names[field]
  if (schema.const !== undefined) return fc.constant(schema.const)
  if (there && there.length > 0 && typeOf(schema) === 'string') return fc.constantFrom<unknown>(...there)
  const [alternatives] = [schema.oneOf, schema.anyOf].filter((list) => list !== undefined)
  if (alternatives) return fc.oneof(...alternatives.map((one) => fitting(one, names)))
  if (schema.enum) return fc.constantFrom(...schema.enum)
  switch (typeOf(schema)) {
    case 'object': {
      const required = new Set(schema.required)
      const fields = Object.entries(schema.properties ?? {}).map(([name, inner]) => {
        const value = fitting(inner, names, name)
        return [name, required.has(name) ? value : fc.option(value, { nil: undefined })] as const
      })
      if (fields.length === 0 && typeof schema.additionalProperties === 'object')
        return fc.dictionary(fc.constantFrom('a', 'b', 'é'), fitting(schema.additionalProperties, names), {
          maxKeys: 2,
        })
      return fc.record(Object.fromEntries(fields))
    }
    case 'array':
      return fc.uniqueArray(fitting(schema.items ?? {}, names), {
        minLength: schema.minItems ?? 0,
        maxLength: Math.min(schema.maxItems ?? 3, 3),
      })
    case 'integer':
    case 'number':
      return fc.integer({ min: schema.minimum ?? 0, max: Math.min(schema.maximum ?? 1000, 1000) })
    case 'boolean':
      return fc.boolean()
    default:
      return fittingText(schema, schema.examples?.[0])
  }
}

function fittingText(schema: Schema, example: unknown): fc.Arbitrary<string> {
  if (schema.enum) return fc.constantFrom(...schema.enum.map(String))
  if (typeOf(schema) === 'integer')
    return fc.integer({ min: schema.minimum ?? 0, max: Math.min(schema.maximum ?? 1000, 1000) }).map(String)
  const sample = fc.constant(typeof example === 'string' ? example : 'text')
  // Names that do not exist, of every length that a name may have.
  if (schema.pattern) return fc.oneof(sample, fc.stringMatching(new RegExp(schema.pattern)))
  return fc.oneof(
    sample,
    fc.string({ minLength: schema.minLength ?? 0, maxLength: Math.min(schema.maxLength ?? 40, 40) }),
  )
}

/** Replaces surrogates, because half a surrogate pair has no encoding. */
const wellFormed = (text: string) => text.replace(/[\uD800-\uDFFF]/g, '?')
