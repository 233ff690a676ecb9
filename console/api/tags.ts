import { queryOptions } from '@tanstack/react-query'
import { api, ok } from './client.ts'
import { type DataOf, refresh } from './queries.ts'

const KEY = ['tags']

/** Names of commits of main. */
export const tagsQuery = () => queryOptions({ queryKey: KEY, queryFn: () => ok(api.tags.get({ query: {} })) })
export type Tag = DataOf<typeof tagsQuery>['tags'][number]

export async function createTag(body: { name: string; as_of?: number; description?: string }) {
  await ok(api.tags.post(body))
  await refresh(KEY)
}

export async function deleteTag(name: string) {
  await ok(api.tags({ name }).delete())
  await refresh(KEY)
}
