import { describe, expect, test } from 'bun:test'
import { creationUpdates, newTable } from '../write/new-table.ts'
import {
  currentSchema,
  parseMetadata,
  serializeMetadata,
  type TableMetadata,
  UnsupportedTable,
} from './metadata.ts'
import { CommitFailed, checkRequirements } from './requirements.ts'
import type { Schema } from './types.ts'
import { METADATA_LOG_LIMIT, SNAPSHOT_LOG_LIMIT, UNUSED_SCHEMAS_LIMIT } from './update-limits.ts'
import { applyUpdates } from './updates.ts'
import { BadUpdate, type Snapshot, type SortOrder, type TableRequirement, type TableUpdate } from './wire.ts'

const uuid = '0f8fad5b-d9cb-469f-a165-70867728950e'
const schema: Schema = {
  type: 'struct',
  'schema-id': 0,
  fields: [
    { id: 1, name: 'a', required: false, type: 'int' },
    { id: 2, name: 'b', required: false, type: 'string' },
  ],
}
const wider: Schema = {
  ...schema,
  fields: [...schema.fields, { id: 3, name: 'c', required: false, type: 'date' }],
}
const table = newTable({ uuid, location: 's3://bucket/_lake/t', schema, at: 1000 })

const snapshot = (id: bigint, sequence: number): Snapshot => ({
  'snapshot-id': id,
  'sequence-number': sequence,
  'timestamp-ms': 1000 + sequence,
  'manifest-list': `s3://bucket/_lake/t/metadata/snap-${id}.avro`,
  summary: { operation: 'append' },
  'schema-id': 0,
})
const addSnapshot = (id: bigint, sequence: number): TableUpdate => ({
  action: 'add-snapshot',
  snapshot: snapshot(id, sequence),
})
const setRef = (id: bigint, name = 'main', type: 'branch' | 'tag' = 'branch'): TableUpdate => ({
  action: 'set-snapshot-ref',
  'ref-name': name,
  type,
  'snapshot-id': id,
})
const apply = (base: TableMetadata, ...updates: TableUpdate[]) => applyUpdates(base, updates, { at: 2000 })
const filled = apply(table, addSnapshot(5n, 1), setRef(5n), addSnapshot(6n, 2), setRef(6n, 'audit', 'tag'))

describe('a new table', () => {
  test('has all fields that readers need, without nulls', () => {
    expect(serializeMetadata(table)).toBe(
      JSON.stringify({
        'format-version': 2,
        'table-uuid': uuid,
        location: 's3://bucket/_lake/t',
        'last-sequence-number': 0,
        'last-updated-ms': 1000,
        'last-column-id': 2,
        schemas: [schema],
        'current-schema-id': 0,
        'partition-specs': [{ 'spec-id': 0, fields: [] }],
        'default-spec-id': 0,
        'last-partition-id': 999,
        'sort-orders': [{ 'order-id': 0, fields: [] }],
        'default-sort-order-id': 0,
        properties: {},
        snapshots: [],
        'snapshot-log': [],
        'metadata-log': [],
        refs: {},
      }),
    )
  })

  test('equals the result of its own creation updates', () => {
    const partitioned = newTable({
      uuid,
      location: 's3://bucket/_lake/t',
      schema: { type: 'struct', fields: wider.fields },
      partitionSpec: { fields: [{ 'source-id': 3, name: 'c_day', transform: 'day' }] },
      sortOrder: {
        'order-id': 1,
        fields: [{ 'source-id': 1, transform: 'identity', direction: 'asc', 'null-order': 'nulls-first' }],
      },
      properties: { owner: 'x', 'format-version': '2' },
      at: 2000,
    })
    expect(applyUpdates(null, creationUpdates(partitioned), { at: 2000 })).toEqual(partitioned)
    expect(partitioned).toMatchObject({
      properties: { owner: 'x' },
      'last-partition-id': 1000,
      'default-sort-order-id': 1,
    })
    expect(partitioned.properties).not.toHaveProperty('format-version')
  })

  test('numbers the fields of a new table from 1', () => {
    const fields: Schema['fields'] = [
      { id: 3, name: 'a', required: true, type: 'int' },
      { id: 4, name: 'b', required: true, type: 'string' },
    ]
    const shape = { type: 'struct' as const, fields, 'identifier-field-ids': [4] }
    const created = newTable({ uuid, location: 'x', schema: shape, at: 1 })
    expect(currentSchema(created)).toMatchObject({
      'identifier-field-ids': [2],
      fields: [{ id: 1 }, { id: 2 }],
    })
  })

  test('replaces field ids that start at 0, also in the spec', () => {
    const fields: Schema['fields'] = [
      {
        id: 0,
        name: 'l',
        required: false,
        type: { type: 'list', 'element-id': 7, 'element-required': false, element: 'int' },
      },
      { id: 1, name: 'd', required: false, type: 'date' },
    ]
    const created = newTable({
      uuid,
      location: 'x',
      schema: { type: 'struct', fields },
      partitionSpec: { fields: [{ 'source-id': 1, name: 'd', transform: 'identity' }] },
      at: 1,
    })
    expect(currentSchema(created).fields).toMatchObject([{ id: 1, type: { 'element-id': 2 } }, { id: 3 }])
    expect(created['partition-specs']).toEqual([
      { 'spec-id': 0, fields: [{ 'source-id': 3, 'field-id': 1000, name: 'd', transform: 'identity' }] },
    ])
  })

  test('refuses a new table of another format version', () => {
    const wanted = { uuid, location: 'x', schema, properties: { 'format-version': '4' }, at: 1 }
    expect(() => newTable(wanted)).toThrow('format-version 4 is not supported')
  })

  test.each([
    'assign-uuid',
    'set-location',
    'set-current-schema',
    'set-default-spec',
    'set-default-sort-order',
  ])('refuses a new table without %s', (action) => {
    const updates = creationUpdates(table).filter((update) => update.action !== action)
    expect(() => applyUpdates(null, updates, { at: 1 })).toThrow(`a new table also needs: ${action}`)
  })
})

describe('requirements', () => {
  const cases: [
    type: TableRequirement['type'],
    key: string,
    holds: unknown,
    broken: unknown,
    ref?: string,
  ][] = [
    ['assert-table-uuid', 'uuid', uuid.toUpperCase(), uuid.replace('0', '1')],
    ['assert-ref-snapshot-id', 'snapshot-id', 5n, 6n],
    ['assert-ref-snapshot-id', 'snapshot-id', 5n, null],
    ['assert-ref-snapshot-id', 'snapshot-id', null, 5n, 'absent'],
    ['assert-ref-snapshot-id', 'snapshot-id', null, 5n, 'toString'],
    ['assert-last-assigned-field-id', 'last-assigned-field-id', 2, 1],
    ['assert-current-schema-id', 'current-schema-id', 0, 1],
    ['assert-last-assigned-partition-id', 'last-assigned-partition-id', 999, 1000],
    ['assert-default-spec-id', 'default-spec-id', 0, 1],
    ['assert-default-sort-order-id', 'default-sort-order-id', 0, 1],
  ]
  test.each(cases)('%s accepts %s %p and refuses %p', (type, key, holds, broken, ref = 'main') => {
    const [right, wrong] = [holds, broken].map((value) => ({ type, ref, [key]: value }) as TableRequirement)
    if (right === undefined || wrong === undefined) throw new Error('two requirements')
    expect(() => checkRequirements(filled, [right])).not.toThrow()
    expect(() => checkRequirements(filled, [right, wrong])).toThrow(CommitFailed)
    expect(() => checkRequirements(null, [right])).toThrow(`the table does not exist (${type})`)
  })

  test('accepts assert-create only for a table that does not exist', () => {
    expect(() => checkRequirements(null, [{ type: 'assert-create' }])).not.toThrow()
    expect(() => checkRequirements(table, [{ type: 'assert-create' }])).toThrow('the table already exists')
  })
})

describe('updates', () => {
  const cases: [TableUpdate[], Partial<TableMetadata>][] = [
    [[{ action: 'assign-uuid', uuid }], {}],
    [[{ action: 'upgrade-format-version', 'format-version': 2 }], {}],
    [[{ action: 'set-location', location: 's3://bucket/_lake/u//' }], { location: 's3://bucket/_lake/u' }],
    [
      [{ action: 'add-schema', schema: wider }],
      { schemas: [schema, { ...wider, 'schema-id': 1 }], 'last-column-id': 3 },
    ],
    [useSchema({ ...schema, 'schema-id': 9 } as Schema), { schemas: [schema] }],
    [
      useSchema(wider),
      { schemas: [schema, { ...wider, 'schema-id': 1 }], 'last-column-id': 3, 'current-schema-id': 1 },
    ],
    [
      [...usePartitions(1), { action: 'add-spec', spec: partitionBy(1) }],
      {
        'partition-specs': [
          { 'spec-id': 0, fields: [] },
          { 'spec-id': 1, fields: [{ 'source-id': 1, 'field-id': 1000, name: 'p', transform: 'identity' }] },
        ],
        'default-spec-id': 1,
        'last-partition-id': 1000,
      },
    ],
    [
      useOrder({ 'order-id': 0, fields: [sortBy(2)] }),
      {
        'sort-orders': [
          { 'order-id': 0, fields: [] },
          { 'order-id': 1, fields: [sortBy(2)] },
        ],
        'default-sort-order-id': 1,
      },
    ],
    [
      [
        { action: 'set-properties', updates: { a: '1', b: '2' } },
        { action: 'remove-properties', removals: ['a', 'c'] },
      ],
      { properties: { b: '2' } },
    ],
    [[addSnapshot(5n, 1)], { snapshots: [snapshot(5n, 1)], 'last-sequence-number': 1 }],
    [
      [addSnapshot(5n, 1), setRef(5n), setRef(5n)],
      {
        snapshots: [snapshot(5n, 1)],
        'last-sequence-number': 1,
        'current-snapshot-id': 5n,
        refs: { main: { type: 'branch', 'snapshot-id': 5n } },
        'snapshot-log': [{ 'timestamp-ms': 2000, 'snapshot-id': 5n }],
      },
    ],
    [
      [addSnapshot(5n, 1), setRef(5n), addSnapshot(6n, 2), setRef(6n)],
      {
        snapshots: [snapshot(5n, 1), snapshot(6n, 2)],
        'last-sequence-number': 2,
        'current-snapshot-id': 6n,
        refs: { main: { type: 'branch', 'snapshot-id': 6n } },
        'snapshot-log': [{ 'timestamp-ms': 2000, 'snapshot-id': 6n }],
      },
    ],
  ]
  test.each(cases.map(([updates, changes]) => ({ name: actions(updates), updates, changes })))(
    'applies $name',
    ({ updates, changes }) => {
      expect(apply(table, ...updates)).toEqual({ ...table, 'last-updated-ms': 2000, ...changes })
    },
  )

  test('removes the main branch, which empties the table but keeps its snapshots and history', () => {
    const { 'current-snapshot-id': current, ...rest } = apply(filled, {
      action: 'remove-snapshot-ref',
      'ref-name': 'main',
    })
    expect(current).toBeUndefined()
    expect(rest).toMatchObject({
      'snapshot-log': [{ 'snapshot-id': 5n }],
      refs: { audit: { type: 'tag', 'snapshot-id': 6n } },
    })
    expect(rest.snapshots).toHaveLength(2)
  })

  test('accepts a replacement with an earlier number and keeps the later number', () => {
    const replaced = apply(filled, addSnapshot(9n, 1), setRef(9n))
    expect(replaced).toMatchObject({ 'current-snapshot-id': 9n, 'last-sequence-number': 2 })
  })

  test('removes a snapshot with its branches, tags and earlier history', () => {
    const moved = apply(filled, addSnapshot(7n, 3), setRef(7n))
    expect(moved['snapshot-log'].map((entry) => entry['snapshot-id'])).toEqual([5n, 7n])
    const removed = apply(moved, { action: 'remove-snapshots', 'snapshot-ids': [5n, 6n, 99n] })
    expect(removed.snapshots.map((one) => one['snapshot-id'])).toEqual([7n])
    expect(removed['snapshot-log'].map((entry) => entry['snapshot-id'])).toEqual([7n])
    expect(removed.refs).toEqual({ main: { type: 'branch', 'snapshot-id': 7n } })
  })

  test('records a rollback as a new entry of the history', () => {
    const moved = apply(filled, addSnapshot(7n, 3), setRef(7n))
    const back = apply(moved, setRef(5n))
    expect(back['current-snapshot-id']).toBe(5n)
    expect(back['snapshot-log'].map((entry) => entry['snapshot-id'])).toEqual([5n, 7n, 5n])
  })

  const bad: [TableUpdate[], message: string][] = [
    [[{ action: 'assign-uuid', uuid: uuid.replace('0', '1') }], 'never changes'],
    [[{ action: 'upgrade-format-version', 'format-version': 1 }], '1 is not supported'],
    [[{ action: 'upgrade-format-version', 'format-version': 4 }], '4 is not supported'],
    [
      [{ action: 'add-schema', schema: { ...schema, fields: [...schema.fields, ...schema.fields] } }],
      'used twice',
    ],
    [
      [
        {
          action: 'add-schema',
          schema: {
            ...schema,
            fields: [
              { id: 1, name: 'a', required: false, type: 'int' },
              { id: 4, name: 'a', required: false, type: 'int' },
            ],
          },
        },
      ],
      'name is used twice',
    ],
    [[{ action: 'add-schema', schema: { ...schema, 'identifier-field-ids': [9] } }], 'identifier field 9'],
    [[{ action: 'set-current-schema', 'schema-id': -1 }], 'but this commit adds none'],
    [[{ action: 'set-current-schema', 'schema-id': 4 }], 'id 4 does not exist'],
    [[{ action: 'set-default-spec', 'spec-id': -1 }], 'but this commit adds none'],
    [[{ action: 'set-default-spec', 'spec-id': 4 }], 'id 4 does not exist'],
    [usePartitions(9), 'no field 9'],
    [
      [{ action: 'add-spec', spec: { fields: [...partitionBy(1).fields, ...partitionBy(2).fields] } }],
      'used twice',
    ],
    [[{ action: 'set-default-sort-order', 'sort-order-id': -1 }], 'but this commit adds none'],
    [[{ action: 'set-default-sort-order', 'sort-order-id': 4 }], 'id 4 does not exist'],
    [useOrder({ 'order-id': 1, fields: [sortBy(9)] }), 'no field 9'],
    [[addSnapshot(5n, 3)], 'snapshot 5 already exists'],
    [
      [{ action: 'add-snapshot', snapshot: { ...snapshot(9n, 2), 'parent-snapshot-id': 5n } }],
      'sequence number 2 is not above 2',
    ],
    [
      [{ action: 'add-snapshot', snapshot: { ...snapshot(9n, 3), 'schema-id': 4 } }],
      'schema 4 does not exist',
    ],
    [[setRef(9n)], 'snapshot 9 does not exist'],
    [[setRef(5n, 'main', 'tag')], 'never a tag'],
    [[{ action: 'set-statistics' } as unknown as TableUpdate], 'update set-statistics is not supported'],
  ]
  test.each(bad.map(([updates, message]) => ({ name: actions(updates), updates, message })))(
    '$name is refused: $message',
    ({ updates, message }) => {
      expect(() => apply(filled, ...updates)).toThrow(BadUpdate)
      expect(() => apply(filled, ...updates)).toThrow(message)
    },
  )

  test('leaves the table unchanged after a refused update', () => {
    const before = serializeMetadata(filled)
    expect(() => apply(filled, addSnapshot(7n, 3), setRef(7n), setRef(9n))).toThrow(BadUpdate)
    expect(serializeMetadata(filled)).toBe(before)
  })

  test('refuses a schema without the partitioned column', () => {
    const partitioned = apply(table, ...usePartitions(1))
    const narrow: Schema = { ...schema, fields: schema.fields.slice(1) }
    expect(() => apply(partitioned, ...useSchema(narrow))).toThrow('no field 1')
  })
})

describe('limits of the metadata', () => {
  test.each([
    ['2', 2],
    ['0', 1],
    ['none', 1],
    ['1000', METADATA_LOG_LIMIT],
  ])(
    'lists as many earlier metadata files as write.metadata.previous-versions-max = %s allows',
    (max, length) => {
      let next = apply(filled, {
        action: 'set-properties',
        updates: { 'write.metadata.previous-versions-max': max },
      })
      for (let i = 0; i < METADATA_LOG_LIMIT + 1; i += 1)
        next = applyUpdates(next, [], { at: 3000 + i, previousFile: `file-${i}` })
      expect(next['metadata-log']).toHaveLength(length)
    },
  )

  test('keeps only the latest entries of the logs', () => {
    let next = filled
    for (let i = 0; i < SNAPSHOT_LOG_LIMIT + 20; i += 1) {
      const updates = [addSnapshot(BigInt(1000 + i), 3 + i), setRef(BigInt(1000 + i))]
      next = applyUpdates(next, updates, { at: 3000 + i, previousFile: `file-${i}` })
    }
    expect(next['snapshot-log']).toHaveLength(SNAPSHOT_LOG_LIMIT)
    expect(next['metadata-log']).toHaveLength(METADATA_LOG_LIMIT)
    expect(next['metadata-log'].at(-1)).toEqual({
      'timestamp-ms': 3000 + SNAPSHOT_LOG_LIMIT + 18,
      'metadata-file': `file-${SNAPSHOT_LOG_LIMIT + 19}`,
    })
  })

  test('drops unused schemas, the oldest first', () => {
    let next = filled
    for (let id = 10; id < 10 + UNUSED_SCHEMAS_LIMIT + 20; id += 1) {
      const fields: Schema['fields'] = [{ id, name: 'x', required: false, type: 'int' }]
      next = apply(next, ...useSchema({ ...schema, fields }))
    }
    expect(next.schemas).toHaveLength(UNUSED_SCHEMAS_LIMIT + 2)
    expect(next.schemas[0]).toEqual(schema)
    expect(currentSchema(next).fields[0]?.id).toBe(10 + UNUSED_SCHEMAS_LIMIT + 19)
  })
})

describe('a metadata file', () => {
  test('reads written metadata unchanged', () => {
    expect(parseMetadata(serializeMetadata(filled))).toEqual(filled)
  })

  test('accepts missing lists and null or -1 for no snapshot', () => {
    const lists = ['snapshots', 'snapshot-log', 'metadata-log', 'properties']
    const missing = Object.fromEntries(lists.map((name) => [name, undefined]))
    for (const current of [-1, null]) {
      const written = { ...table, ...missing, 'current-snapshot-id': current, refs: null }
      expect(parseMetadata(JSON.stringify(written))).toEqual(table)
    }
  })

  test('refuses metadata with another format version or none', () => {
    expect(() => parseMetadata('{"format-version": 4}')).toThrow(UnsupportedTable)
    expect(() => parseMetadata('{"format-version": 2}')).toThrow(SyntaxError)
    expect(() => parseMetadata('[]')).toThrow(UnsupportedTable)
    expect(() => parseMetadata('null')).toThrow(SyntaxError)
  })
})

const actions = (updates: readonly TableUpdate[]) => updates.map((update) => update.action).join(', ')

function sortBy(source: number) {
  return {
    'source-id': source,
    transform: 'identity',
    direction: 'asc',
    'null-order': 'nulls-first',
  } as const
}

function partitionBy(source: number) {
  return { fields: [{ 'source-id': source, name: 'p', transform: 'identity' }] }
}

function useSchema(added: Schema): TableUpdate[] {
  return [
    { action: 'add-schema', schema: added },
    { action: 'set-current-schema', 'schema-id': -1 },
  ]
}

function usePartitions(source: number): TableUpdate[] {
  return [
    { action: 'add-spec', spec: partitionBy(source) },
    { action: 'set-default-spec', 'spec-id': -1 },
  ]
}

function useOrder(order: SortOrder): TableUpdate[] {
  return [
    { action: 'add-sort-order', 'sort-order': order },
    { action: 'set-default-sort-order', 'sort-order-id': -1 },
  ]
}
