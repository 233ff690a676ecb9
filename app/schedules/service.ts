import type { Db } from '../../drizzle/client.ts'
import { BadCron, checkCron } from '../../machines/cron.ts'
import { EVERYTHING } from '../core/access.ts'
import type { Clock } from '../core/clock.ts'
import { invalid, notFound } from '../core/errors.ts'
import type { NewId } from '../core/ids.ts'
import type { Page } from '../core/pagination.ts'
import { noPipeline } from '../core/pipeline-ref.ts'
import type { CreateSchedule, Schedule, ScheduleCreated, UpdateSchedule } from './schema.ts'
import {
  changeSchedule,
  insertSchedule,
  removeSchedule,
  type ScheduleRow,
  scheduleById,
  schedulesOn,
} from './store.ts'

interface ScheduleDeps {
  db: Db
  clock: Clock
  newId: NewId
}

export type ScheduleService = ReturnType<typeof makeScheduleService>

/** Schedules as clients edit them. The scheduler computes the due times (due.ts). */
export function makeScheduleService({ db, clock, newId }: ScheduleDeps) {
  /** Throws 400 naming the field and the problem. */
  function requireCron(text: string) {
    try {
      checkCron(text, clock.now())
    } catch (error) {
      if (error instanceof BadCron) throw invalid('cron', error.message)
      throw error
    }
  }

  return {
    /** Lists schedules of the pipelines that the caller may see. */
    async list(page: Page, { pipelines } = EVERYTHING) {
      const { items, total } = await schedulesOn(db, page, pipelines)
      return { schedules: items.map(scheduleOf), total }
    },

    async create({ namespace, layer, pipeline, cron, enabled = true }: CreateSchedule) {
      requireCron(cron)
      const ref = { namespace, layer, name: pipeline }
      const row = await insertSchedule(db, ref, { id: newId(), cron, enabled })
      if (row === null) throw noPipeline(ref)
      return createdShapeOf({ ...row, namespace, layer, pipeline })
    },

    async get(id: string) {
      const row = await scheduleById(db, id)
      if (row === null) throw noSchedule(id)
      return scheduleOf(row)
    },

    async update(id: string, change: UpdateSchedule) {
      if (change.cron !== undefined) requireCron(change.cron)
      const row = await changeSchedule(db, id, change)
      if (row === null) throw noSchedule(id)
      return scheduleOf(row)
    },

    async remove(id: string) {
      if (!(await removeSchedule(db, id))) throw noSchedule(id)
    },
  }
}

const noSchedule = (id: string) => notFound(`schedule ${id}`)

const createdShapeOf = (row: ScheduleRow): ScheduleCreated => ({
  id: row.id,
  namespace: row.namespace,
  layer: row.layer,
  pipeline: row.pipeline,
  cron: row.cron,
  enabled: row.enabled,
  created_at: row.createdAt.toISOString(),
  updated_at: row.updatedAt.toISOString(),
})

const scheduleOf = (row: ScheduleRow): Schedule => ({
  ...createdShapeOf(row),
  last_run_at: row.lastRunAt?.toISOString() ?? null,
  next_run_at: row.nextRunAt?.toISOString() ?? null,
})
