// The history of an instance: each step with its number, its transition and the time until the next step.
import type { Sql } from '../../drizzle/client.ts'
import { definitionOf, transitionTaken } from './definitions.ts'
import type { Definition, History, MachineName, Snapshot, Step } from './schema.ts'
import { positionOf, type StepRow, stepRowsAfter, stepRowsBefore } from './store/steps.ts'

/** The newest steps, or the newest steps before `before`. */
export async function historyOf(
  sql: Sql,
  { machine, id, created_at, state }: Pick<Snapshot, 'machine' | 'id' | 'created_at' | 'state'>,
  { before = null, limit }: { before?: number | null; limit: number },
): Promise<History> {
  const definition = definitionOf(machine)
  const of = { machine, id }
  const { rows, nextAt } = await stepRowsBefore(sql, of, { before, limit })
  const { total, earlier, firstFrom } = await positionOf(sql, of, rows)
  const begins = beginsWithoutRow(definition, firstFrom)
  const steps = stepsOf(definition, rows, { earlier: earlier + begins, nextAt })
  if (begins === 1 && earlier === 0 && rows.length < limit) {
    const to = firstFrom ?? state
    const at = new Date(created_at)
    const first = { id: 0, at, event: 'created', from: '', to, effects: [], cause: '' }
    steps.unshift(...stepsOf(definition, [first], { earlier: 0, nextAt: rows[0]?.at ?? nextAt }))
  }
  return { steps, total: total + begins, is_whole: firstFrom === '' || begins === 1 }
}

/** The steps after `step`, for followers. */
export async function stepsAfter(sql: Sql, machine: MachineName, id: string, step: number): Promise<Step[]> {
  const rows = await stepRowsAfter(sql, { machine, id }, step)
  if (rows.length === 0) return []
  const definition = definitionOf(machine)
  const { earlier, firstFrom } = await positionOf(sql, { machine, id }, rows)
  return stepsOf(definition, rows, {
    earlier: earlier + beginsWithoutRow(definition, firstFrom),
    nextAt: null,
  })
}

/** The number of first steps without a row: 1 for a draft, whose creation leaves no row, unless later rows were removed. */
const beginsWithoutRow = ({ machine, initial }: Definition, firstFrom: string | null): 0 | 1 =>
  machine === 'draft' && (firstFrom === null || firstFrom === initial) ? 1 : 0

const stepsOf = (
  definition: Definition,
  rows: readonly StepRow[],
  { earlier, nextAt }: { earlier: number; nextAt: Date | null },
): Step[] =>
  rows.map(({ id, at, ...taken }, index) => {
    const next = rows[index + 1]?.at ?? nextAt
    return {
      id,
      step: earlier + index + 1,
      at: at.toISOString(),
      ...taken,
      transition: transitionTaken(definition, taken),
      duration_ms: next === null ? null : Math.max(0, next.getTime() - at.getTime()),
    }
  })
