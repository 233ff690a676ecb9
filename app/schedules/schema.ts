import { Type as t } from '@sinclair/typebox'
import { Instant, Layer, NamespaceName, nullable, PipelineName, Uuid } from '../core/names.ts'

const CronText = t.String({
  description:
    'Five fields in UTC: minute, hour, day of month, month, weekday; with names, lists, ranges and steps',
  examples: ['0 6 * * mon-fri'],
})

/** The answer to a creation. It has no times yet, because the scheduler has not seen the schedule. */
export const ScheduleCreated = t.Object(
  {
    id: Uuid,
    namespace: NamespaceName,
    layer: Layer,
    pipeline: PipelineName,
    cron: CronText,
    enabled: t.Boolean(),
    created_at: Instant,
    updated_at: Instant,
  },
  { title: 'ScheduleCreated' },
)
export type ScheduleCreated = typeof ScheduleCreated.static

export const Schedule = t.Composite(
  [
    ScheduleCreated,
    t.Object({
      last_run_at: nullable(Instant, { description: 'Time of the last requested run' }),
      next_run_at: nullable(Instant, {
        description:
          'Next due time; null while the schedule is disabled, and until the scheduler has computed it',
      }),
    }),
  ],
  { title: 'Schedule' },
)
export type Schedule = typeof Schedule.static

export const ScheduleList = t.Object(
  { schedules: t.Array(Schedule), total: t.Integer() },
  { title: 'ScheduleList' },
)

export const SchedulePath = t.Object({ id: Uuid })

export const CreateSchedule = t.Object(
  {
    namespace: NamespaceName,
    layer: Layer,
    pipeline: PipelineName,
    cron: CronText,
    enabled: t.Optional(t.Boolean({ default: true })),
  },
  { title: 'CreateSchedule' },
)
export type CreateSchedule = typeof CreateSchedule.static

export const UpdateSchedule = t.Object(
  {
    cron: t.Optional(CronText),
    enabled: t.Optional(t.Boolean()),
  },
  { title: 'UpdateSchedule' },
)
export type UpdateSchedule = typeof UpdateSchedule.static
