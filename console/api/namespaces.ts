import { queryOptions, useQuery } from '@tanstack/react-query'
import { api, ok } from './client.ts'
import { refresh } from './queries.ts'

const KEY = ['namespaces']
const changed = () => refresh(KEY)

export const namespacesQuery = () =>
  queryOptions({ queryKey: KEY, queryFn: () => ok(api.namespaces.get({ query: {} })) })

/** The names of all namespaces. `chosen` is among them, even if it is unknown or not loaded yet. */
export function useNamespaces(chosen = ''): string[] {
  const { data } = useQuery(namespacesQuery())
  const names = (data?.namespaces ?? []).map(({ name }) => name)
  return chosen === '' || names.includes(chosen) ? names : [chosen, ...names]
}

export const createNamespace = (body: { name: string; description: string }) =>
  ok(api.namespaces.post(body)).then(changed)

export const deleteNamespace = (name: string) => ok(api.namespaces({ name }).delete()).then(changed)
