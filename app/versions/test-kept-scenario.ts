// Actors of the test of kept states: writers, other engines, branches, tags, restores, maintenance and a reaper, all at once.
import { expect } from 'bun:test'
import type { TableName } from '../../ground/names.ts'
import { stringifyJson } from '../../lake/iceberg/format/json.ts'
import type { TableMetadata } from '../../lake/iceberg/format/metadata.ts'
import { createViewBody } from '../../lake/iceberg/views/view.ts'
import { systemClock } from '../core/clock.ts'
import { AppError } from '../core/errors.ts'
import type { TestAttempt } from '../iceberg/test-catalog.ts'
import type { ReaperObjects } from '../retention/store/reaping.ts'
import { makeLakeReader } from './lake-reader.ts'
import { makeMetadataFiles } from './metadata-files.ts'
import { makeRestores } from './restores.ts'
import { headOfMain, keptBranchesPart, lockedHead } from './store/branches.ts'
import { keptCommit } from './store/kept-commits.ts'
import { mergeMaintenance, openMaintenance } from './store/maintenance.ts'
import { closeUserBranch, lockedBranch, openUserBranch } from './store/user-branches.ts'
import { changesOf, conflictsIn, dropUnchanged, mergeUserBranch } from './store/user-merges.ts'
import { newId, type SomeTable } from './test-aging-lake.ts'
import { appended, type Change, deleted, overwritten, renamed, restored, viewed } from './test-kept-model.ts'
import { type KeptStates, viewSqlOf } from './test-kept-states.ts'

const DAY_HOURS = 24
/** Actions run in this many lanes beside the reaper. */
const LANES = 3

const tableNamed = (name: string): TableName => ({ namespace: 'default', layer: 'gold', name })
const sqlOf = (values: readonly number[]) => `select unnest([${values.join()}]) as a`

interface ScenarioParts {
  random(below: number): number
  tables: readonly SomeTable[]
  /** Pipelines that store views. */
  views: readonly SomeTable[]
  states: KeptStates
}

/** Everything that happens to one lake. Actions give up after a conflict, as their callers would be told to try again. */
export class KeptStatesScenario {
  readonly done = new Map<string, number>()
  #numbers = 0
  readonly #waiting: (() => void)[] = []
  #running = 0

  readonly random: (below: number) => number
  readonly tables: readonly SomeTable[]
  readonly views: readonly SomeTable[]
  readonly states: KeptStates

  constructor({ random, tables, views, states }: ScenarioParts) {
    this.random = random
    this.tables = tables
    this.views = views
    this.states = states
  }

  /** Pipelines with an open attempt. Runs of one pipeline execute one at a time. */
  readonly #busy = new Set<SomeTable>()

  /** Runs the work unless the pipeline is busy. */
  async #alone(pipeline: SomeTable, work: () => Promise<void>): Promise<void> {
    if (this.#busy.has(pipeline)) return
    this.#busy.add(pipeline)
    await work()
    this.#busy.delete(pipeline)
  }

  #number = () => ++this.#numbers
  #name = (kind: string) => `${kind}-${this.#number()}`
  #count = (what: string) => this.done.set(what, (this.done.get(what) ?? 0) + 1)
  #chosen<T>(from: readonly T[]): T {
    const chosen = from[this.random(from.length)]
    if (chosen === undefined) throw new Error('there is nothing to choose from')
    return chosen
  }
  /** The name of a table that main may have. */
  #anyTable(): string {
    const world = this.states.main.at(Number.POSITIVE_INFINITY)
    const names = [...world].filter(([, { kind }]) => kind === 'table').map(([name]) => name)
    return names.length === 0 ? 'absent' : this.#chosen(names)
  }

  #deck: (() => () => Promise<void>)[] = []

  /** An action with its choices made. The actions of a round then run in an order that no seed decides. */
  action(): () => Promise<void> {
    if (this.#deck.length === 0)
      this.#deck = [
        ...[this.write, this.write, this.write, this.rename, this.deleteRow, this.deleteRow, this.deleteRow],
        ...[this.storeView, this.keep, this.keep, this.restore, this.maintain, this.maintain],
        ...[this.run, this.failedRun, this.query, this.query],
      ]
    const [next] = this.#deck.splice(this.random(this.#deck.length), 1)
    if (next === undefined) throw new Error('the deck has actions')
    return next.call(this)
  }

  write() {
    const [table, values] = [this.#chosen(this.tables), [this.#number(), this.#number()]]
    const operation = this.random(2) === 0 ? 'append' : 'overwrite'
    return () =>
      this.#alone(table, async () => {
        const commit = await table.write(sqlOf(values), operation)
        const change = operation === 'append' ? appended : overwritten
        this.states.main.record(commit, change(table.table.name, values))
        this.#count('write')
      })
  }

  rename() {
    const [from, to] = [this.#anyTable(), this.#name('renamed')]
    return this.#onBranch('rename', async (branch) =>
      (await this.states.engine.rename(branch, from, to)) ? renamed(from, to) : null,
    )
  }

  deleteRow() {
    const [name, kind] = [this.#anyTable(), this.random(2) === 0 ? 'vector' : 'positions'] as const
    return this.#onBranch(kind, async (branch) => {
      const rows = await this.states.engine.deleteRow(branch, name, kind)
      return rows && deleted(name, rows)
    })
  }

  /** Changes a branch of a user by Iceberg REST. Merges it, or leaves it open. */
  #onBranch(what: string, changeOn: (branch: string) => Promise<Change | null>) {
    const [branch, isMerged] = [this.#name('dev'), this.random(3) > 0]
    return async () => {
      const { sql } = this.states.catalog
      const base = await this.#open(branch, 'user', null)
      if (base === null) return
      const change = await changeOn(branch)
      if (!isMerged || change === null) {
        const world = () => (change ?? ((same) => same))(this.states.main.at(base))
        this.states.keepWarehouse(`branch with ${what}`, branch, world)
        if (change !== null) this.#count(what)
        return
      }
      const merged = await sql.begin(async (tx) => {
        await lockedHead(tx)
        const open = await lockedBranch(tx, branch)
        if (open === null) throw new Error(`branch ${branch} is not open`)
        await dropUnchanged(tx, branch)
        const changes = await changesOf(tx, branch)
        if (conflictsIn(changes).length > 0) {
          await closeUserBranch(tx, branch)
          return null
        }
        const decision = { authors: [], by: null }
        const merge = { branch: open, id: newId(), author: null, message: what, changes, decision }
        return mergeUserBranch(tx, merge)
      })
      if (merged === null) return
      if (merged.kind === 'protected') throw new Error(`${merged.table} is protected`)
      this.states.main.record(merged.commit, change)
      this.#count(what)
    }
  }

  storeView() {
    const [view, of] = [this.#chosen(this.views), this.#anyTable()]
    return () =>
      this.#alone(view, async () => {
        const { namespace, layer, name } = view.table
        const attempt = await view.begin()
        const body = createViewBody(
          { namespace: [namespace, layer], name },
          {
            sql: viewSqlOf(of),
            schema: {
              type: 'struct',
              'schema-id': 0,
              fields: [{ id: 1, name: 'a', type: 'int', required: false }],
            },
            reads: [`default.gold.${of}`],
            runId: attempt.runId,
          },
        )
        const path = `/catalog/v1/sluice.${attempt.branch}/namespaces/default%1Fgold/views`
        const answer = await this.states.catalog.fetch(path, attempt.token, {
          method: 'POST',
          body: stringifyJson(body),
        })
        expect(answer.status).toBe(200)
        const { config } = (await answer.json()) as { config: Record<string, string> }
        const stored = config['x-sluice-commit']
        if (stored === undefined) return view.fail(attempt)
        const commit = await view.merge(attempt, stored)
        if (commit === null) return
        this.states.main.record(commit, viewed(name, of))
        this.#count('view')
      })
  }

  /** Opens a branch or a tag on the head of main, or on an older commit while it is kept. */
  keep() {
    const kind = this.random(2) === 0 ? 'tag' : 'user'
    const [isOld, place] = [this.random(2) === 0, this.random(1_000)]
    const name = this.#name('kept')
    return async () => {
      const { commits } = this.states.main
      const base = await this.#open(name, kind, isOld ? (commits[place % commits.length] ?? null) : null)
      if (base === null) return
      this.states.keepWarehouse(`${kind} at ${base}`, name, () => this.states.main.at(base))
      this.#count(kind)
    }
  }

  /** Returns the base; null when main does not keep the commit any more. */
  async #open(name: string, kind: 'user' | 'tag', commit: number | null): Promise<number | null> {
    const { sql } = this.states.catalog
    return sql.begin(async (tx) => {
      const head = await headOfMain(tx)
      const kept = await keptCommit(tx, { commit: commit ?? head }, true)
      if (kept.commit === null) return null
      const base = kept.commit
      const more = { from: null, description: '', createdBy: null, expiresInHours: null }
      expect(await openUserBranch(tx, { name, kind, base, ...more })).toBe(true)
      return base
    })
  }

  restore() {
    const [table, place] = [this.#chosen([...this.tables, ...this.views]), this.random(1_000)]
    const { db, objects } = this.states.catalog
    const files = makeMetadataFiles({ objects, newId })
    const reader = makeLakeReader(objects)
    const restores = makeRestores({ db, objects, files, reader, clock: systemClock, newId })
    return async () => {
      const { commits } = this.states.main
      const source = commits[place % commits.length]
      if (source === undefined) return
      const { name } = table.table
      const request = { table: table.table, commit: source, author: null, person: null }
      const done = await restores
        .restore(request, async () => null)
        .catch((error: unknown) => {
          // The commit is not kept, or others changed the table all the time.
          if (error instanceof AppError && [404, 409].includes(error.status)) return null
          throw error
        })
      // A table that has the content already keeps its commit.
      if (done === null || done.commit <= source) return
      this.states.main.record(
        done.commit,
        restored(name, () => this.states.main.at(source)),
      )
      this.#count('restore')
    }
  }

  /** Combines the files of a table on its own branch, and merges the branch as the reaper does. */
  maintain() {
    const name = this.#anyTable()
    return async () => {
      const { sql } = this.states.catalog
      const table = tableNamed(name)
      if ((await this.states.engine.table('sluice', name)) === null) return
      const { runId, branch, compact } = await this.states.catalog.attempt(table)
      await sql`delete from lake_ref where name = ${branch}`
      const work = { runId, branch, table }
      await sql.begin((tx) => openMaintenance(tx, work))
      // A writer may have removed the table since.
      const compacted = await compact().catch(() => null)
      if (compacted === null) return
      const { commit } = compacted
      const refusal = await sql.begin((tx) => mergeMaintenance(tx, work, { commit, message: 'maintenance' }))
      this.#count(refusal === null ? 'maintenance' : 'refused maintenance')
    }
  }

  /** A run that reads its base for some rounds. */
  run() {
    const table = this.#chosen(this.tables)
    return async () => {
      if (this.#busy.has(table)) return
      this.#busy.add(table)
      const attempt = await table.begin()
      const base = await this.#baseOf(attempt)
      this.states.keep({
        what: `run at ${base}`,
        world: () => this.states.main.at(base),
        table: (name) => loaded(attempt, name),
        view: null,
        end: async () => {
          await table.fail(attempt)
          this.#busy.delete(table)
        },
      })
      this.#count('run')
    }
  }

  /** A run with a failed gate, whose branch is kept. */
  failedRun() {
    const [table, values] = [this.#chosen(this.tables), [this.#number()]]
    return () =>
      this.#alone(table, async () => {
        const { sql, tokens } = this.states.catalog
        const attempt = await table.begin()
        const { branch, runId } = attempt
        const base = await this.#baseOf(attempt)
        await attempt.write(sqlOf(values), 'append')
        await sql.begin(async (tx) => {
          await tx`update run set status = 'failed', finished_at = clock_timestamp() where id = ${runId}`
          await tx`update run_attempt set state = 'closed', closed_at = clock_timestamp() where run_id = ${runId}`
          await tx`with ${keptBranchesPart(tx, [{ branch, hours: 1_000 * DAY_HOURS }])} select`
        })
        const token = tokens.read({ commit: base, branch, expiresAt: new Date(Date.now() + 3_600_000) })
        const client = await this.states.catalog.client('sluice', token)
        this.states.keep({
          what: `branch of a failed run at ${base}`,
          world: () => appended(table.table.name, values)(this.states.main.at(base)),
          table: (name) => loaded({ client }, name),
          view: null,
          end: async () => {
            await sql`update lake_ref set kept_until = clock_timestamp() - interval '1 day' where name = ${branch}`
          },
        })
        this.#count('failed run')
      })
  }

  /** A query that has resolved its tables and reads them when the round ends. */
  query() {
    return async () => {
      const head = await headOfMain(this.states.catalog.sql)
      // The model of the head is complete only when the other actions of this moment are recorded.
      const names = [...this.tables.map(({ table }) => table.name), this.#anyTable()]
      const tables = []
      for (const name of new Set(names)) {
        const metadata = await this.states.engine.table(`sluice.${head}`, name)
        if (metadata !== null) tables.push({ name, metadata })
      }
      this.states.addQuery({ head, tables })
      this.#count('query')
    }
  }
  async #baseOf({ branch }: TestAttempt): Promise<number> {
    const [row] = await this.states.catalog.sql<{ base: number }[]>`
      select base::int as base from lake_ref where name = ${branch}`
    return row?.base ?? 0
  }

  /** Runs actions in several lanes. */
  async play(actions: (() => Promise<void>)[]): Promise<void> {
    const left = [...actions]
    this.#running = left.length
    const lane = async () => {
      for (let next = left.shift(); next !== undefined; next = left.shift()) {
        try {
          await next()
        } finally {
          this.#running -= 1
          for (const go of this.#waiting.splice(0)) go()
        }
      }
    }
    await Promise.all(Array.from({ length: LANES }, lane))
  }

  /** Often a call of the reaper waits until an action has ended, so that the lake changes within a tick. */
  meeting(direct: ReaperObjects, random: (below: number) => number): ReaperObjects {
    const meet = async () => {
      if (this.#running > 0 && random(3) === 0)
        await new Promise<void>((resolve) => this.#waiting.push(resolve))
    }
    return {
      ...direct,
      list: async (...args) => {
        const page = await direct.list(...args)
        await meet()
        return page
      },
      read: async (key) => {
        const bytes = await direct.read(key)
        await meet()
        return bytes
      },
      put: async (key, bytes) => {
        await direct.put(key, bytes)
        await meet()
      },
      remove: async (key) => {
        await meet()
        await direct.remove(key)
      },
    }
  }
}

async function loaded({ client }: Pick<TestAttempt, 'client'>, name: string): Promise<TableMetadata> {
  return (await client.loadTable({ namespace: ['default', 'gold'], name })).metadata
}
