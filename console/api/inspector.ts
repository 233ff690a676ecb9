import { infiniteQueryOptions, keepPreviousData, queryOptions, useInfiniteQuery } from '@tanstack/react-query'
import { useCallback, useEffect, useMemo, useState } from 'react'
import type { Counts, MachineName, Snapshot, Step } from '../../app/inspector/schema.ts'
import { layerOf } from '../../ground/names.ts'
import { api, ok } from './client.ts'
import { setClock } from './clock.ts'
import { type Connection, follow } from './events.ts'
import { queryClient, refresh, SLOW_MS } from './queries.ts'
import { path, readBlob } from './request.ts'

const KEY = ['inspector'] as const

export type { Counts, Definition, Listed, MachineName, Step } from '../../app/inspector/schema.ts'
export const MACHINES: readonly MachineName[] = ['run', 'draft', 'trigger']
/** Labels of the arrows of a drawing, from few to many. */
export const DETAILS = ['states', 'events', 'full'] as const
export type Detail = (typeof DETAILS)[number]
/** The parameters of the address of a list. */
export const INSTANCE_FILTERS = ['namespace', 'layer', 'pipeline', 'state', 'q'] as const
export type InstanceFilter = { [Name in (typeof INSTANCE_FILTERS)[number]]?: string }
/** Instances that one request reads. */
export const INSTANCE_PAGE_ROWS = 100
/** An ended instance changes only when retention removes its steps. */
const ENDED_FRESH_MS = 60_000
/** More characters of a search are refused. */
const SEARCH_MAX = 200

/** The statecharts. They change with the version of the service only. */
export const machinesQuery = () =>
  queryOptions({
    queryKey: [...KEY, 'machines'],
    queryFn: () => ok(api.inspector.machines.get({ query: {} })),
    staleTime: Number.POSITIVE_INFINITY,
  })

/** The drawings of a machine without colours, which the page supplies. */
export const drawingsQuery = (machine: MachineName) =>
  queryOptions({
    queryKey: [...KEY, machine, 'drawings'],
    queryFn: async () => {
      const texts = DETAILS.map(async (detail) => {
        const drawing = await readBlob(drawingPath(machine, { detail, style: 'none' }))
        return [detail, await drawing.text()] as const
      })
      return Object.fromEntries(await Promise.all(texts)) as Record<Detail, string>
    },
    staleTime: Number.POSITIVE_INFINITY,
  })

/** The address of a drawing below the API. */
export const drawingPath = (machine: MachineName, query: Record<string, string>) =>
  `${path`inspector/machines/${machine}.svg`}?${new URLSearchParams(query)}`

const listKey = (machine: MachineName) => [...KEY, machine, 'list'] as const

/** The filter of an address as the API has it. An unknown layer is no filter. */
function apiFilterOf({ layer, q, ...names }: InstanceFilter) {
  const known = layerOf(layer)
  return { ...names, ...(known && { layer: known }), ...(q && { q: q.slice(0, SEARCH_MAX) }) }
}

/** Corrects the clock by the time in an answer. */
function timed<Answer extends { now: string }>(answer: Answer): Answer {
  setClock(answer.now)
  return answer
}

/** One page of the instances, with the number of instances in each state. */
export const instancesQuery = (machine: MachineName, filter: InstanceFilter, page: number) =>
  queryOptions({
    queryKey: [...listKey(machine), filter, page],
    queryFn: async () => {
      const bounds = { limit: String(INSTANCE_PAGE_ROWS), offset: String(page * INSTANCE_PAGE_ROWS) }
      const query = { ...apiFilterOf(filter), ...bounds }
      return timed(await ok(api.inspector({ machine }).instances.get({ query })))
    },
    refetchInterval: SLOW_MS,
    ...(page === 0 && { placeholderData: keepPreviousData }),
  })

/** The number of all instances in each state. */
export const countsQuery = (machine: MachineName) =>
  queryOptions({
    queryKey: [...KEY, machine, 'counts'],
    queryFn: async (): Promise<Counts> =>
      (await ok(api.inspector({ machine }).instances.get({ query: { limit: '1' } }))).counts,
    refetchInterval: SLOW_MS,
  })

const readInstance = async (machine: MachineName, id: string, before: number | null) => {
  const query = before === null ? {} : { before: String(before) }
  return timed(await ok(api.inspector({ machine }).instances({ id }).get({ query })))
}
export type Instance = Awaited<ReturnType<typeof readInstance>>

/** An instance. The first page has the newest steps, and each further page has earlier ones. The event stream keeps it up to date. */
export const instanceQuery = (machine: MachineName, id: string) =>
  infiniteQueryOptions({
    queryKey: [...KEY, machine, 'instance', id],
    queryFn: ({ pageParam }) => readInstance(machine, id, pageParam),
    initialPageParam: null as number | null,
    getNextPageParam: ({ history: { steps } }) => {
      const [first] = steps
      return first !== undefined && first.step > 1 ? first.id : null
    },
    staleTime: ({ state }) => (state.data?.pages[0]?.live ? Number.POSITIVE_INFINITY : ENDED_FRESH_MS),
  })

const NONE: readonly Instance[] = []
const stepsOf = (pages: readonly Instance[]): Step[] =>
  pages.toReversed().flatMap(({ history: { steps } }) => steps)

/** An instance with the steps that are loaded, oldest first. */
export function useHistory(machine: MachineName, id: string) {
  const query = useInfiniteQuery(instanceQuery(machine, id))
  const { error, hasNextPage, fetchNextPage, refetch } = query
  const pages = query.data?.pages ?? NONE
  const [instance] = pages
  const steps = useMemo(() => stepsOf(pages), [pages])
  /** Loads earlier steps until the wanted step is loaded, or no earlier step is left. */
  const loadUntil = useCallback(
    async (wanted: number): Promise<Step[]> => {
      let [all, hasEarlier] = [stepsOf(pages), hasNextPage]
      while (hasEarlier && (all[0]?.id ?? 0) > wanted) {
        const loaded = await fetchNextPage({ cancelRefetch: false })
        if (loaded.isError) break
        all = stepsOf(loaded.data?.pages ?? NONE)
        hasEarlier = loaded.hasNextPage
      }
      return all
    },
    [pages, hasNextPage, fetchNextPage],
  )
  return {
    instance,
    steps,
    total: instance?.history.total ?? 0,
    /** False: retention has removed older steps. */
    isWhole: instance?.history.is_whole ?? true,
    hasEarlier: hasNextPage,
    loadUntil,
    error,
    retry: () => void refetch(),
  }
}

export type History = ReturnType<typeof useHistory>

/** The address of a saved instance below the API. `step` is the step that a drawing shows. */
export const exportPath = (machine: MachineName, id: string, kind: 'json' | 'svg', step: number | null) =>
  path`inspector/${machine}/instances/${id}/export.${kind}` + (step === null ? '' : `?step=${step}`)

/** Reads the lists of a machine again while its instances move. */
export function useLiveInstances(machine: MachineName): Connection {
  const [connection, setConnection] = useState<Connection>('connecting')
  useEffect(() => {
    let isStopped = false
    let isReading = false
    let isMissed = false
    const read = async () => {
      isMissed = true
      if (isReading) return
      isReading = true
      while (isMissed && !isStopped) {
        isMissed = false
        await refresh(listKey(machine))
      }
      isReading = false
    }
    const stop = follow(path`inspector/${machine}/events`, {
      onState: setConnection,
      onEvent() {
        void read()
        return true
      },
    })
    return () => {
      isStopped = true
      stop()
    }
  }, [machine])
  return connection
}

/** Adds the steps of a loaded instance as they happen. */
export function useLiveInstance(machine: MachineName, id: string, isLoaded: boolean): Connection {
  const [connection, setConnection] = useState<Connection>('connecting')
  useEffect(() => {
    if (!isLoaded) return
    const { queryKey } = instanceQuery(machine, id)
    const loaded = queryClient.getQueryData(queryKey)?.pages[0]
    if (!loaded?.live) return setConnection('ended')
    const { change, stop } = changesOf(machine, id)
    const unfollow = follow(path`inspector/${machine}/instances/${id}/events`, {
      lastEventId: String(loaded.history.steps.at(-1)?.id ?? 0),
      onState(state) {
        setConnection(state)
        // The end is final, or the instance is gone: the answer says which.
        if (state === 'ended') void refresh(queryKey)
      },
      onEvent(name, data) {
        if (name === 'gone') return false
        if (name === 'transition') change((newest) => withStep(newest, data as Step))
        if (name !== 'snapshot') return true
        const snapshot = timed(data as Snapshot)
        change((newest) => ({ ...newest, ...snapshot }))
        return snapshot.live
      },
    })
    return () => {
      unfollow()
      stop()
    }
  }, [machine, id, isLoaded])
  return connection
}

type Change = (newest: Instance) => Instance

/** Changes a loaded instance until `stop`. The end of a fetch overwrites the data, so changes wait while a fetch runs. */
export function changesOf(machine: MachineName, id: string) {
  const { queryKey } = instanceQuery(machine, id)
  const waiting: Change[] = []
  const apply = () => {
    if (waiting.length === 0 || queryClient.isFetching({ queryKey, exact: true }) > 0) return
    const changes = waiting.splice(0)
    queryClient.setQueryData(queryKey, (data) => {
      const [newest, ...earlier] = data?.pages ?? []
      if (data === undefined || newest === undefined) return data
      return { ...data, pages: [changes.reduce((page, change) => change(page), newest), ...earlier] }
    })
  }
  const change = (each: Change) => {
    waiting.push(each)
    apply()
  }
  return { change, stop: queryClient.getQueryCache().subscribe(apply) }
}

/** The step ends the time of the step before. A repeated step changes nothing. */
export function withStep(instance: Instance, step: Step): Instance {
  const { steps } = instance.history
  const last = steps.at(-1)
  if (last !== undefined && step.id <= last.id) return instance
  const before = last && { ...last, duration_ms: Math.max(0, Date.parse(step.at) - Date.parse(last.at)) }
  return {
    ...instance,
    history: {
      ...instance.history,
      total: step.step,
      steps: [...steps.slice(0, -1), ...(before ? [before] : []), step],
    },
  }
}
