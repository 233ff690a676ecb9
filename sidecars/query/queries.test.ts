import { expect, test } from 'bun:test'
import { create } from '@bufbuild/protobuf'
import { LakeViewSchema } from '../../proto/gen/sluice/query/v1/query_pb.ts'
import type { EngineLease, Statement } from './engines.ts'
import { makeQueries } from './queries.ts'

/** Whether an engine is told, as the same text comes new and again, that a table has no more rows than two; the catalog says how many. */
async function toldOf(rows: number) {
  const table = {
    namespace: 'default',
    layer: 'gold' as const,
    name: 'routes',
    content_id: 'c',
    metadata_location: 'm',
    columns: [],
    row_count: rows,
    size_bytes: 0,
  }
  const reference = { catalog: '', schema: 'gold', name: 'routes' }
  const statement: Statement = {
    sql: 'FROM gold.routes',
    kind: 'select',
    tables: [reference],
    listsTables: false,
    setsSeed: false,
    rowsOf: reference,
  }
  const told: unknown[] = []
  const answer = { kind: 'none' } as never
  const engine: EngineLease = {
    check: () => Promise.resolve(statement),
    has: () => true,
    keep: () => {},
    others: () => [],
    ask: ({ short }) => {
      told.push(short.length > 0)
      return Promise.resolve({ statement, rows: answer })
    },
    run: ({ isShort }) => {
      told.push(isShort)
      return Promise.resolve(answer)
    },
    release: () => {},
  }
  const runQuery = makeQueries({
    tablesAt: () => Promise.resolve(new Map([['default.gold.routes', table]])),
    openRelation: () => Promise.resolve({ from: () => '', release: () => {} }),
    engines: { take: () => Promise.resolve(engine), isServing: () => true, stop: () => Promise.resolve() },
  })
  const lake = create(LakeViewSchema)
  const query = {
    sql: statement.sql,
    namespace: 'default',
    rowsLimit: 2,
    jsonBytesMax: 1_000_000,
    lake,
    seen: null,
  }
  for (let n = 0; n < 2; n += 1) await runQuery(query, new AbortController().signal)
  return told
}

test('a table has no more rows than the limit where the catalog says so; where it says none, they may not have been counted', async () => {
  expect(await toldOf(0)).toEqual([false, false])
  expect(await toldOf(2)).toEqual([true, true])
  expect(await toldOf(3)).toEqual([false, false])
})
