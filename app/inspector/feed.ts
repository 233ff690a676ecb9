// Server-sent events of instances and lists. Each is read once for any number of watchers. Notices report moves of runs. One
// query finds moves of all watched drafts and triggers, and moves whose notice was lost.

import { limits } from '../core/limits.ts'
import { type EventReader, eventBytes, HEARTBEAT, openEventReader } from '../http/event-stream.ts'
import type { StreamSlots } from '../wire/stream-slots.ts'
import { MACHINE_NAMES, type MachineName, type Snapshot, STEPS_MAX } from './schema.ts'
import type { InspectorService } from './service.ts'

/** Interval at which a changed list sends `changed`. */
const LIST_MS = 1_000
/** Interval at which a watched instance is read again, because its reasons for waiting change without steps. */
const REFRESH_MS = 10_000

/** Bytes that may wait for a slow reader before its stream ends. The reader reconnects and resumes. */
const STREAM_BUFFER_BYTES = 262_144

/** A refresh is split into this many turns, so that a thousand instances are not read at once. */
const REFRESH_TURNS = 10
/** Interval of `changed` for readers with restricted visibility, who must not learn when hidden instances move. */
const BLIND_MS = 3_000

type Recheck = () => Promise<void>

/** The service functions that feeds use. */
type Inspector = Pick<InspectorService, 'snapshot' | 'after' | 'latestSteps' | 'movedSince'>

export type InspectorFeeds = ReturnType<typeof makeInspectorFeeds>

export function makeInspectorFeeds(
  inspector: Inspector,
  places: StreamSlots,
  { heartbeatMs = limits.sseHeartbeatMs as number } = {},
) {
  const instances = new Map<string, InstanceFeed>()
  const lists = new ListFeeds(inspector)
  let isPolling = false
  let turn = 0

  const timers = [
    setInterval(() => void poll(), limits.ssePollMs),
    setInterval(() => lists.wake(), LIST_MS),
    setInterval(() => lists.wakeUnconfirmed(), BLIND_MS),
    setInterval(refreshSome, REFRESH_MS / REFRESH_TURNS),
    setInterval(() => {
      for (const instance of instances.values()) instance.beat()
      // A superfluous event costs a reader one request; a missing event would leave its list outdated.
      lists.changed(MACHINE_NAMES)
    }, heartbeatMs),
  ]
  for (const timer of timers) timer.unref?.()

  /**
   * Streams the snapshot, the steps after `position`, and then new events. The stream ends with a final state. It also ends
   * when `recheck` rejects, because a right was revoked or cannot be checked. Every heartbeat calls `recheck`. Null: there are
   * too many streams.
   */
  function follow(
    machine: MachineName,
    id: string,
    position: number,
    client: string,
    recheck: Recheck = async () => {},
  ): ReadableStream<Uint8Array> | null {
    const key = `${machine} ${id.toLowerCase()}`
    const reader = openEventReader(places, client, {
      bufferBytes: STREAM_BUFFER_BYTES,
      onLeave() {
        instance.watchers.delete(watcher)
        if (instance.watchers.size === 0 && instances.get(key) === instance) instances.delete(key)
      },
    })
    if (reader === null) return null
    const instance = instances.get(key) ?? new InstanceFeed(machine, id.toLowerCase(), inspector)
    const watcher: Watcher = { reader, position, isNew: true, recheck, isRechecking: false }
    instances.set(key, instance)
    instance.watchers.add(watcher)
    instance.wake()
    return reader.stream
  }

  /**
   * Streams `changed` at most once a second, whenever an instance of a machine has moved. A blind reader, who sees only some
   * instances, gets `changed` at fixed intervals instead. Null: there are too many streams.
   */
  function followList(
    machine: MachineName,
    client: string,
    isBlind = false,
  ): ReadableStream<Uint8Array> | null {
    const readers = lists.readers(machine, isBlind)
    const reader = openEventReader(places, client, {
      bufferBytes: STREAM_BUFFER_BYTES,
      onLeave: (gone) => readers.delete(gone),
    })
    if (reader === null) return null
    readers.add(reader)
    // An instance may have moved since the reader loaded the list.
    if (!isBlind) lists.changed([machine])
    return reader.stream
  }

  /** Hints that a run has moved or has a new log line. */
  function wakeRun(id: string) {
    instances.get(`run ${id}`)?.wake()
    lists.changed(['run'])
  }

  /** Reasons for waiting change without a step, so each turn reads a part of all instances again. */
  function refreshSome() {
    turn = (turn + 1) % REFRESH_TURNS
    for (const [index, instance] of [...instances.values()].entries())
      if (index % REFRESH_TURNS === turn) instance.wake()
  }

  async function poll() {
    if (isPolling) return
    isPolling = true
    try {
      for (const machine of MACHINE_NAMES) await pollInstances(machine)
      await lists.poll()
    } catch {
      // The database is unavailable; the next poll tries again.
    } finally {
      isPolling = false
    }
  }

  async function pollInstances(machine: MachineName) {
    const feeds = [...instances.values()].filter((feed) => feed.machine === machine)
    if (feeds.length === 0) return
    const latest = await inspector.latestSteps(
      machine,
      feeds.map(({ id }) => id),
    )
    for (const feed of feeds) if ((latest.get(feed.id) ?? 0) > feed.latest) feed.wake()
  }

  function stop() {
    for (const timer of timers) clearInterval(timer)
    for (const instance of instances.values()) instance.end()
    lists.end()
  }

  return { follow, followList, wakeRun, stop }
}

interface Watcher {
  reader: EventReader
  /** Id of the last step sent to this watcher. */
  position: number
  isNew: boolean
  /** Rejects when the reader may no longer see the instance. */
  recheck: Recheck
  isRechecking: boolean
}

/** One instance and its watchers. */
class InstanceFeed {
  readonly watchers = new Set<Watcher>()
  /** Id of the last step that was read. */
  latest = 0
  /** The last snapshot that was sent, without its time. */
  #sentContent = ''
  #isReading = false
  #isStale = false

  constructor(
    readonly machine: MachineName,
    readonly id: string,
    readonly inspector: Inspector,
  ) {}

  wake() {
    this.#isStale = true
    if (!this.#isReading) void this.#read()
  }

  beat() {
    for (const watcher of this.watchers) void recheckWatcher(watcher)
  }

  end(last?: Uint8Array) {
    for (const { reader } of this.watchers) reader.end(last)
  }

  async #read() {
    this.#isReading = true
    try {
      while (this.#isStale && this.watchers.size > 0) {
        this.#isStale = false
        await this.#publish()
      }
    } catch {
      this.end(eventBytes('error', { message: `the ${this.machine} could not be read: reconnect to resume` }))
    } finally {
      this.#isReading = false
    }
  }

  async #publish() {
    const { machine, id, inspector } = this
    // A watcher that joins during these reads is served by the next ones. These reads may start after the watcher's position.
    const watchers = [...this.watchers]
    // The snapshot is read before the steps, so all steps that led to the snapshot are sent with it.
    const snapshot = await inspector.snapshot(machine, id)
    const steps = await inspector.after(machine, id, Math.min(...watchers.map(({ position }) => position)))
    // The next reads send the rest of a long history; the snapshot follows after the last step.
    const isComplete = steps.length < STEPS_MAX
    if (!isComplete) this.#isStale = true
    this.latest = Math.max(this.latest, ...steps.map((step) => step.id))
    const hasChanged = isComplete && contentOf(snapshot) !== this.#sentContent
    if (isComplete) this.#sentContent = contentOf(snapshot)
    for (const watcher of watchers) {
      const { reader } = watcher
      if (reader.freeBytes <= 0) {
        reader.end()
        continue
      }
      for (const step of steps) {
        if (step.id <= watcher.position) continue
        reader.send(eventBytes('transition', step, step.id))
        watcher.position = step.id
      }
      if (!isComplete) continue
      if (snapshot === null) reader.end(eventBytes('gone', { message: `the ${machine} no longer exists` }))
      else if (hasChanged || watcher.isNew) reader.send(eventBytes('snapshot', snapshot))
      watcher.isNew = false
      if (snapshot !== null && !snapshot.live) reader.end()
    }
  }
}

async function recheckWatcher(watcher: Watcher) {
  if (watcher.isRechecking) return
  watcher.isRechecking = true
  try {
    await watcher.recheck()
    watcher.reader.send(HEARTBEAT)
  } catch {
    watcher.reader.end()
  } finally {
    watcher.isRechecking = false
  }
}

/** The part of a snapshot that is compared to detect a change: everything but the time of the read. */
const contentOf = (snapshot: Snapshot | null) => JSON.stringify({ ...snapshot, now: '' })

interface ListFeed {
  readers: Set<EventReader>
  /**
   * Readers with restricted visibility. Their events come at fixed intervals, because real changes would disclose hidden moves.
   */
  blind: Set<EventReader>
  hasChanged: boolean
}

const newList = (): ListFeed => ({ readers: new Set(), blind: new Set(), hasChanged: false })

/** The list of each machine and its readers. */
class ListFeeds {
  readonly #inspector: Inspector
  readonly #lists: Record<MachineName, ListFeed> = { run: newList(), draft: newList(), trigger: newList() }
  /** Id of the newest step that was read; null while no reader follows a list. */
  #last: number | null = null

  constructor(inspector: Inspector) {
    this.#inspector = inspector
  }

  readers(machine: MachineName, isBlind: boolean): Set<EventReader> {
    const { readers, blind } = this.#lists[machine]
    return isBlind ? blind : readers
  }

  changed(machines: readonly MachineName[]) {
    for (const machine of machines) this.#lists[machine].hasChanged = true
  }

  async poll() {
    if (Object.values(this.#lists).every(({ readers }) => readers.size === 0)) {
      this.#last = null
      return
    }
    const moved = await this.#inspector.movedSince(this.#last)
    // The first answer only sets the starting point; earlier moves may have been missed.
    this.changed(this.#last === null ? MACHINE_NAMES : moved.machines)
    this.#last = moved.last
  }

  wake() {
    for (const machine of MACHINE_NAMES) {
      const list = this.#lists[machine]
      if (list.hasChanged) sendChanged(machine, list.readers)
      list.hasChanged = false
    }
  }

  wakeUnconfirmed() {
    for (const machine of MACHINE_NAMES) sendChanged(machine, this.#lists[machine].blind)
  }

  end() {
    for (const { readers, blind } of Object.values(this.#lists))
      for (const reader of [...readers, ...blind]) reader.end()
  }
}

function sendChanged(machine: MachineName, readers: Iterable<EventReader>) {
  for (const reader of readers)
    if (reader.freeBytes <= 0) reader.end()
    else reader.send(eventBytes('changed', { machine }))
}
