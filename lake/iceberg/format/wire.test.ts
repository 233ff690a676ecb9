import { expect, test } from 'bun:test'
import { stringifyJson } from './json.ts'
import { BadUpdate, type CommitRequest, parseCommitRequest, parseCreateTable } from './wire.ts'

const schema = {
  type: 'struct',
  fields: [
    { id: 1, name: 'a', required: false, type: 'decimal(38, 10)' },
    {
      id: 2,
      name: 'm',
      required: true,
      type: {
        type: 'map',
        'key-id': 3,
        key: 'string',
        'value-id': 4,
        'value-required': false,
        value: 'fixed[16]',
      },
    },
    {
      id: 5,
      name: 'l',
      required: false,
      type: {
        type: 'list',
        'element-id': 6,
        'element-required': false,
        element: { type: 'struct', fields: [] },
      },
    },
  ],
}

test('reads a commit with exact ids', () => {
  const commit: CommitRequest = {
    identifier: { namespace: ['default', 'gold'], name: 't' },
    requirements: [
      { type: 'assert-ref-snapshot-id', ref: 'main', 'snapshot-id': null },
      { type: 'assert-create' },
    ],
    updates: [
      {
        action: 'add-snapshot',
        snapshot: {
          'snapshot-id': 9007199254740993n,
          'parent-snapshot-id': 3n,
          'sequence-number': 1,
          'timestamp-ms': 1,
          'manifest-list': 'x',
          summary: { operation: 'append', 'run-id': '1' },
        },
      },
      { action: 'set-snapshot-ref', 'ref-name': 'main', type: 'branch', 'snapshot-id': 9007199254740993n },
      { action: 'remove-snapshots', 'snapshot-ids': [3n] },
    ],
  }
  expect(parseCommitRequest(stringifyJson(commit))).toEqual(commit)
})

test('drops optional nulls and accepts unknown fields', () => {
  const text = `{"requirements": [], "updates": [{"action": "set-snapshot-ref", "ref-name": "main", "type": "branch",
    "snapshot-id": 1, "max-ref-age-ms": null, "later": {"x": null}}], "identifier": null}`
  expect(parseCommitRequest(text)).toEqual({
    requirements: [],
    updates: [
      { action: 'set-snapshot-ref', 'ref-name': 'main', type: 'branch', 'snapshot-id': 1n, later: {} },
    ],
  } as unknown as CommitRequest)
})

test('reads a request to create a table', () => {
  const create = { name: 't', schema, 'stage-create': true, properties: { a: 'b' } }
  expect(parseCreateTable(JSON.stringify(create))).toEqual(create as ReturnType<typeof parseCreateTable>)
})

test.each([
  ['', 'not JSON'],
  ['[]', 'Expected object'],
  ['{"updates": []}', '/requirements'],
  ['{"requirements": [], "updates": {}}', '/updates'],
  [
    '{"requirements": [{"type": "assert-nothing"}], "updates": []}',
    'requirement "assert-nothing" is not supported',
  ],
  ['{"requirements": [{"type": "toString"}], "updates": []}', 'requirement "toString" is not supported'],
  ['{"requirements": [{"type": "assert-table-uuid", "uuid": "1"}], "updates": []}', '/requirements/0/uuid'],
  [
    '{"requirements": [], "updates": [{"action": "add-view-version"}]}',
    'update "add-view-version" is not supported',
  ],
  [
    '{"requirements": [], "updates": [{"action": "remove-snapshots", "snapshot-ids": [1.5]}]}',
    '64-bit integer',
  ],
  [
    '{"requirements": [], "updates": [{"action": "remove-snapshots", "snapshot-ids": [-1]}]}',
    '/updates/0/snapshot-ids/0',
  ],
  [
    '{"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": 1}}]}',
    '/updates/0/updates/a',
  ],
  [
    `{"requirements": [], "updates": [{"action": "add-snapshot", "snapshot": {"snapshot-id": 1}}]}`,
    '/updates/0/snapshot/',
  ],
])('refuses the commit %s: %s', (text, message) => {
  expect(() => parseCommitRequest(text)).toThrow(BadUpdate)
  expect(() => parseCommitRequest(text)).toThrow(message)
})

const withType = (type: unknown) =>
  JSON.stringify({
    name: 't',
    schema: { type: 'struct', fields: [{ id: 1, name: 'a', required: false, type }] },
  })

test.each([
  [withType('varchar'), '/schema/fields/0/type: the type "varchar" of column "a" is not supported'],
  [withType('timestamp_ns'), 'the type "timestamp_ns" of column "a" is not supported'],
  [
    withType({ type: 'struct', fields: [{ id: 2, name: 'b', required: false, type: 'variant' }] }),
    'column "a.b"',
  ],
  [withType('decimal(39, 0)'), 'of column "a" is not supported'],
  [withType(5), '/schema/fields/0/type'],
  [withType({ type: 'set' }), '/schema/fields/0/type/type'],
  [withType({ type: 'list', element: 'int' }), '/schema/fields/0/type/element-id'],
  [withType({ type: 'struct' }), '/schema/fields/0/type/fields'],
  ['{"name": "t", "schema": {"type": "struct", "fields": [{"name": "a"}]}}', '/schema/fields/0/id'],
  ['{"name": "", "schema": {"type": "struct", "fields": []}}', '/name'],
  ['{"name": "t"}', '/schema'],
  [`{"name": "t", "schema": ${nested(70)}}`, 'nested deeper'],
  [`{"name": "t", "schema": ${nested(200_000)}}`, ''],
])('refuses the table %s: %s', (text, message) => {
  expect(() => parseCreateTable(text)).toThrow(BadUpdate)
  expect(() => parseCreateTable(text)).toThrow(message)
})

function nested(depth: number) {
  const open = '{"type": "struct", "fields": [{"id": 1, "name": "a", "required": false, "type": '
  return `${open.repeat(depth)}"int"${'}]}'.repeat(depth)}`
}
