// Server-sent events of instances and lists: however many watch one, it is read once. Runs tell when they move; drafts,
// triggers and what a lost notice missed are found by asking, in one query for all that are watched.

import { limits } from '../core/limits.ts'
import type { StreamPlaces } from '../core/stream-places.ts'
import { MACHINE_NAMES, type MachineName } from './definitions.ts'
import type { Snapshot } from './schema.ts'
import { STEPS_MAX } from './schema.ts'
import type { InspectorService } from './service.ts'

/** Event streams of the inspector, and how often a list is told that it has changed. */
const LIST_MS = 1_000
/** What an instance waits for is looked up again this often while somebody watches. */
const REFRESH_MS = 10_000

/** Bytes a stream may have waiting for a slow reader before it is ended; its reader reconnects and resumes. */
const STREAM_BUFFER_BYTES = 262_144

/** Instances are refreshed in as many parts, so that a thousand of them are not read at once. */
const REFRESH_TURNS = 10
/** How often those are told to look again who may not know that something has moved. */
const BLIND_MS = 3_000

type Controller = ReadableStreamDefaultController<Uint8Array>

interface Watcher {
  controller: Controller
  /** Id of the last step it has been told. */
  position: number
  isNew: boolean
  /** Rejects when its reader may not see the instance any more. */
  ask: Ask
  isAsked: boolean
}

type Ask = () => Promise<void>

interface Watched {
  machine: MachineName
  id: string
  watchers: Set<Watcher>
  /** Id of the last step that was read. */
  latest: number
  /** The last snapshot that was told, without its time. */
  told: string
  isReading: boolean
  isStale: boolean
}

interface List {
  watchers: Set<Controller>
  /** Are told at their own pace: that something has changed would say what others do. */
  blind: Set<Controller>
  hasChanged: boolean
}

export type InspectorFeeds = ReturnType<typeof makeInspectorFeeds>

export function makeInspectorFeeds(
  inspector: Pick<InspectorService, 'snapshot' | 'after' | 'latestSteps' | 'movedSince'>,
  places: StreamPlaces,
  { heartbeatMs = limits.sseHeartbeatMs as number } = {},
) {
  const watched = new Map<string, Watched>()
  const lists = new Map<MachineName, List>(
    MACHINE_NAMES.map((machine) => [machine, { watchers: new Set(), blind: new Set(), hasChanged: false }]),
  )
  let last: number | null = null
  let isPolling = false
  let turn = 0

  const timers = [
    setInterval(() => void poll(), limits.ssePollMs),
    setInterval(tellLists, LIST_MS),
    setInterval(tellBlind, BLIND_MS),
    setInterval(refreshSome, REFRESH_MS / REFRESH_TURNS),
    setInterval(() => {
      for (const { watchers } of watched.values()) for (const watcher of watchers) void askAgain(watcher)
      // A list that is told too often asks once more; one that is told too rarely would be wrong.
      for (const list of lists.values()) list.hasChanged = true
    }, heartbeatMs),
  ]
  for (const timer of timers) timer.unref?.()

  /**
   * The snapshot, the steps after `position`, then whatever comes; ends with a final state, and when `ask`, which every
   * heartbeat calls, rejects: a right that was revoked, or nobody who can say. Null: too many streams.
   */
  function follow(
    machine: MachineName,
    id: string,
    position: number,
    client: string,
    ask: Ask = async () => {},
  ): ReadableStream<Uint8Array> | null {
    const key = `${machine} ${id.toLowerCase()}`
    return stream(client, (controller) => {
      const one = watched.get(key) ?? {
        machine,
        id: id.toLowerCase(),
        watchers: new Set<Watcher>(),
        latest: 0,
        told: '',
        isReading: false,
        isStale: false,
      }
      watched.set(key, one)
      const watcher: Watcher = { controller, position, isNew: true, ask, isAsked: false }
      one.watchers.add(watcher)
      wakeOne(one)
      return () => {
        one.watchers.delete(watcher)
        if (one.watchers.size === 0 && watched.get(key) === one) watched.delete(key)
      }
    })
  }

  /**
   * `changed`, at most once a second, whenever an instance of a machine has moved; to who is blind to some of them, again
   * and again. Null: too many streams.
   */
  function followList(
    machine: MachineName,
    client: string,
    isBlind = false,
  ): ReadableStream<Uint8Array> | null {
    return stream(client, (controller) => {
      const list = lists.get(machine)
      if (isBlind) {
        list?.blind.add(controller)
        return () => list?.blind.delete(controller)
      }
      list?.watchers.add(controller)
      // What moved between its reader's last look and now.
      if (list !== undefined) list.hasChanged = true
      return () => list?.watchers.delete(controller)
    })
  }

  function stream(
    client: string,
    start: (controller: Controller) => () => unknown,
  ): ReadableStream<Uint8Array> | null {
    const giveBack = places.take(client)
    if (giveBack === null) return null
    let leave = () => {}
    return new ReadableStream<Uint8Array>(
      {
        start(controller) {
          send(controller, 'retry: 2000\n\n')
          const remove = start(controller)
          let isOpen = true
          leave = () => {
            if (!isOpen) return
            isOpen = false
            giveBack()
            leaving.delete(controller)
            remove()
          }
          leaving.set(controller, leave)
        },
        cancel: () => leave(),
      },
      new ByteLengthQueuingStrategy({ highWaterMark: STREAM_BUFFER_BYTES }),
    )
  }
  const leaving = new Map<Controller, () => void>()

  function end(controller: Controller) {
    close(controller)
    leaving.get(controller)?.()
  }

  async function askAgain(watcher: Watcher) {
    if (watcher.isAsked) return
    watcher.isAsked = true
    try {
      await watcher.ask()
      send(watcher.controller, ': still here\n\n')
    } catch {
      end(watcher.controller)
    } finally {
      watcher.isAsked = false
    }
  }

  /** Hints that a run has moved, or has another log line. */
  function wakeRun(id: string) {
    const one = watched.get(`run ${id}`)
    if (one !== undefined) wakeOne(one)
    const list = lists.get('run')
    if (list !== undefined) list.hasChanged = true
  }

  function wakeOne(one: Watched) {
    one.isStale = true
    if (!one.isReading) void read(one)
  }

  async function read(one: Watched) {
    one.isReading = true
    try {
      while (one.isStale && one.watchers.size > 0) {
        one.isStale = false
        await tell(one)
      }
    } catch {
      for (const { controller } of one.watchers) {
        send(controller, event('error', { message: 'it could not be read; reconnect to go on' }))
        end(controller)
      }
    } finally {
      one.isReading = false
    }
  }

  async function tell(one: Watched) {
    // Whoever comes during the reads is told by the next ones: these steps may begin after the one he names.
    const watchers = [...one.watchers]
    // The snapshot is read first: steps that come between the two are told with it, and never one without the other.
    const snapshot = await inspector.snapshot(one.machine, one.id)
    const from = Math.min(...watchers.map(({ position }) => position))
    const steps = await inspector.after(one.machine, one.id, from)
    // The rest of a long history comes with the next reads; until then nobody is told where it ends.
    const isWhole = steps.length < STEPS_MAX
    if (!isWhole) one.isStale = true
    one.latest = Math.max(one.latest, steps.at(-1)?.id ?? 0)
    const isNews = isWhole && newsOf(snapshot) !== one.told
    if (isWhole) one.told = newsOf(snapshot)
    for (const watcher of watchers) {
      const { controller } = watcher
      if ((controller.desiredSize ?? 0) <= 0) {
        end(controller)
        continue
      }
      for (const step of steps) {
        if (step.id <= watcher.position) continue
        send(controller, event('transition', step, step.id))
        watcher.position = step.id
      }
      if (!isWhole) continue
      if (snapshot === null) send(controller, event('gone', { message: `the ${one.machine} is gone` }))
      else if (isNews || watcher.isNew) send(controller, event('snapshot', snapshot))
      watcher.isNew = false
      if (snapshot === null || !snapshot.live) end(controller)
    }
  }

  /** What an instance waits for changes without a step of its own: a part of all is read again in each turn. */
  function refreshSome() {
    turn = (turn + 1) % REFRESH_TURNS
    let index = 0
    for (const one of watched.values()) if (index++ % REFRESH_TURNS === turn) wakeOne(one)
  }

  async function poll() {
    if (isPolling) return
    isPolling = true
    try {
      for (const machine of MACHINE_NAMES) await pollInstances(machine)
      await pollLists()
    } catch {
      // The database is away; the next poll asks again.
    } finally {
      isPolling = false
    }
  }

  async function pollInstances(machine: MachineName) {
    const ours = [...watched.values()].filter((one) => one.machine === machine)
    if (ours.length === 0) return
    const latest = await inspector.latestSteps(
      machine,
      ours.map(({ id }) => id),
    )
    for (const one of ours) if ((latest.get(one.id) ?? 0) > one.latest) wakeOne(one)
  }

  async function pollLists() {
    if ([...lists.values()].every(({ watchers }) => watchers.size === 0)) {
      last = null
      return
    }
    const moved = await inspector.movedSince(last)
    // The first answer is only where to begin: what came before it may have been missed.
    const machines = last === null ? MACHINE_NAMES : moved.machines
    last = moved.last
    for (const machine of machines) {
      const list = lists.get(machine)
      if (list !== undefined) list.hasChanged = true
    }
  }

  function tellBlind() {
    for (const [machine, { blind }] of lists) tellChanged(machine, blind)
  }

  function tellChanged(machine: MachineName, watchers: Iterable<Controller>) {
    for (const controller of watchers) {
      if ((controller.desiredSize ?? 0) <= 0) end(controller)
      else send(controller, event('changed', { machine }))
    }
  }

  function tellLists() {
    for (const [machine, list] of lists) {
      if (!list.hasChanged) continue
      list.hasChanged = false
      tellChanged(machine, list.watchers)
    }
  }

  function stop() {
    for (const timer of timers) clearInterval(timer)
    for (const controller of [...leaving.keys()]) end(controller)
  }

  return { follow, followList, wakeRun, stop }
}

/** What of a snapshot is worth telling: not the time at which it was read. */
const newsOf = (snapshot: Snapshot | null) => JSON.stringify({ ...snapshot, now: '' })

const encoder = new TextEncoder()

function send(controller: Controller, text: string) {
  try {
    controller.enqueue(encoder.encode(text))
  } catch {
    // The reader has gone; its cancel takes it out.
  }
}

function close(controller: Controller) {
  try {
    controller.close()
  } catch {
    // Closed by its reader already.
  }
}

const event = (name: string, data: unknown, id?: number) =>
  `${id === undefined ? '' : `id: ${id}\n`}event: ${name}\ndata: ${JSON.stringify(data)}\n\n`
