import { api, ok } from './client.ts'

type Query = Parameters<typeof api.query.post>[0]

/** Executes SQL. */
export const executeQuery = (query: Query, signal: AbortSignal) =>
  ok(api.query.post(query, { fetch: { signal } }))
