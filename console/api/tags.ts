import { queryOptions } from '@tanstack/react-query'
import { api, ok } from './client.ts'
import { type DataOf, refresh } from './queries.ts'

const KEY = ['tags']
const changed = () => refresh(KEY)

/** Names of commits of main. */
export const tagsQuery = () => queryOptions({ queryKey: KEY, queryFn: () => ok(api.tags.get({ query: {} })) })
export type Tag = DataOf<typeof tagsQuery>['tags'][number]

export const createTag = (body: { name: string; as_of?: number; description?: string }) =>
  ok(api.tags.post(body)).then(changed)

export const deleteTag = (name: string) => ok(api.tags({ name }).delete()).then(changed)
