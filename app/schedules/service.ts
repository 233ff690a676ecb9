import type { Sql } from '../../drizzle/client.ts'
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
  scheduleCount,
  schedulesOn,
} from './store.ts'

export interface ScheduleDeps {
  sql: Sql
  clock: Clock
  newId: NewId
}

export type ScheduleService = ReturnType<typeof makeScheduleService>

/** Schedules as people set them; when they are due is the scheduler's to know (due.ts). */
export function makeScheduleService({ sql, clock, newId }: ScheduleDeps) {
  /** 400 naming the field and what is wrong with it. */
  function requireCron(text: string) {
    try {
      checkCron(text, clock.now())
    } catch (error) {
      if (error instanceof BadCron) throw invalid('cron', error.message)
      throw error
    }
  }

  return {
    /** Those of the pipelines the caller sees. */
    async list(page: Page, { pipelines } = EVERYTHING) {
      const [rows, total] = await Promise.all([
        schedulesOn(sql, page, pipelines),
        scheduleCount(sql, pipelines),
      ])
      return { schedules: rows.map(shapeOf), total }
    },

    async create({ namespace, layer, pipeline, cron, enabled = true }: CreateSchedule) {
      requireCron(cron)
      const ref = { namespace, layer, name: pipeline }
      const row = await insertSchedule(sql, { id: newId(), pipeline: ref, cron, enabled })
      if (row === null) throw noPipeline(ref)
      return createdShapeOf(row)
    },

    async get(id: string) {
      const row = await scheduleById(sql, id)
      if (row === null) throw noSchedule(id)
      return shapeOf(row)
    },

    async update(id: string, change: UpdateSchedule) {
      if (change.cron !== undefined) requireCron(change.cron)
      const row = await changeSchedule(sql, id, change)
      if (row === null) throw noSchedule(id)
      return shapeOf(row)
    },

    async remove(id: string) {
      if (!(await removeSchedule(sql, id))) throw noSchedule(id)
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

const shapeOf = (row: ScheduleRow): Schedule => ({
  ...createdShapeOf(row),
  last_run_at: row.lastRunAt?.toISOString() ?? null,
  next_run_at: row.nextRunAt?.toISOString() ?? null,
})
