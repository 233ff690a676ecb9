import { expect, test } from 'bun:test'
import { InfiniteQueryObserver } from '@tanstack/react-query'
import { changesOf, type Instance, instanceQuery, type Step, withStep } from './inspector.ts'
import { isQuiet, prefetch, queryClient } from './queries.ts'

const step = (id: number, at: string) => ({ id, step: id, at, duration_ms: null }) as unknown as Step
const instance = {
  state: 'pending.waiting',
  history: { steps: [step(1, '2026-11-29T10:00:00.000Z')], total: 1, is_whole: true },
} as unknown as Instance

test('a new step ends the time of the step before', () => {
  const { history } = withStep(instance, step(2, '2026-11-29T10:00:01.500Z'))
  expect(history.steps.map(({ id, duration_ms }) => [id, duration_ms])).toEqual([
    [1, 1_500],
    [2, null],
  ])
  expect(history.total).toBe(2)
})

test('a step that a reconnected stream repeats changes nothing', () => {
  expect(withStep(instance, step(1, '2026-11-29T10:00:09.000Z'))).toBe(instance)
})

test('a step of an ended instance does not read the history again', () => {
  const query = instanceQuery('run', 'ended')
  queryClient.setQueryData(query.queryKey, { pages: [{ ...instance, live: false }], pageParams: [null] })
  prefetch([query])
  expect(isQuiet()).toBe(true)
})

test('a step that happens while earlier steps are loaded stays', async () => {
  const newest = {
    ...instance,
    history: { ...instance.history, steps: [step(2, '2026-11-29T10:00:00.000Z')] },
  }
  const earlier = Promise.withResolvers<Instance>()
  const query = { ...instanceQuery('run', 'live'), queryFn: () => earlier.promise }
  queryClient.setQueryData(query.queryKey, { pages: [newest], pageParams: [null] })
  const { change, stop } = changesOf('run', 'live')
  const loaded = new InfiniteQueryObserver(queryClient, query).fetchNextPage()
  change((page) => withStep(page, step(3, '2026-11-29T10:00:01.000Z')))
  change((page) => ({ ...page, state: 'success' }))
  earlier.resolve(instance)
  await loaded
  stop()
  const pages = queryClient.getQueryData(query.queryKey)?.pages ?? []
  expect(pages.map(({ history: { steps } }) => steps.map(({ id }) => id))).toEqual([[2, 3], [1]])
  expect(pages[0]?.state).toBe('success')
})
