import { queryOptions } from '@tanstack/react-query'
import { ok } from './client.ts'
import { type Named, pipelineAt } from './pipelines.ts'
import { type DataOf, refresh } from './queries.ts'

const KEY = ['triggers']
const changed = () => refresh(KEY)

/** The events that start runs of a pipeline. */
export const triggersQuery = (at: Named) =>
  queryOptions({
    queryKey: [...KEY, at.ns, at.layer, at.name],
    queryFn: () => ok(pipelineAt(at).triggers.get({ query: {} })),
  })
export type Trigger = DataOf<typeof triggersQuery>['triggers'][number]

type NewTrigger = Parameters<ReturnType<typeof pipelineAt>['triggers']['post']>[0]

export async function createTrigger(at: Named, trigger: NewTrigger) {
  const made = await ok(pipelineAt(at).triggers.post(trigger))
  // The form shows the token of a webhook at once, without a wait for the list.
  void refresh(KEY)
  return made
}

export const enableTrigger = (at: Named, id: string, enabled: boolean) =>
  ok(pipelineAt(at).triggers({ id }).put({ enabled })).then(changed)

export const deleteTrigger = (at: Named, id: string) =>
  ok(pipelineAt(at).triggers({ id }).delete()).then(changed)
