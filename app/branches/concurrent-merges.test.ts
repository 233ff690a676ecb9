import { expect, test } from 'bun:test'
import type { RunId } from '../core/ids.ts'
import { anySlot, startWaiting } from '../runs/service.ts'
import { accepted, executed, RUNNER, useRuns } from '../runs/test-runs.ts'
import { commitToTestBranch, openTestBranch } from '../versions/test-rows.ts'
import { tablesIn, viewOf } from '../versions/views.ts'
import { mergesOf } from './test-merges.ts'

const { opened, pipelineNamed, tell } = useRuns(24)

const BRANCHES = 20
const TABLES_PER_BRANCH = 5

test('100 runs on 20 branches that merge at once are all on main', async () => {
  const { sql } = opened
  const names = Array.from({ length: BRANCHES }, (_, n) => `branch-${n}`)
  for (const name of names) await sql.begin((tx) => openTestBranch(tx, name, 0))
  const runs = new Map<RunId, { table: string; branch: string }>()
  for (let n = 0; n < BRANCHES * TABLES_PER_BRANCH; n++) {
    const [table, branch] = [`table-${n}`, `branch-${n % BRANCHES}`]
    const { request } = await pipelineNamed(table)
    runs.set(await request('manual', branch), { table, branch })
  }
  const attempts = []
  while (attempts.length < runs.size) {
    const started = await startWaiting(sql, Array(64).fill(anySlot(RUNNER)), 'tester')
    attempts.push(...started.attempts)
  }

  const made = new Map<string, string>()
  await Promise.all(
    attempts.map(async ({ runId, branch }) => {
      const table = runs.get(runId)?.table ?? ''
      const { id, contentId } = await commitToTestBranch(sql, branch, table)
      made.set(table, contentId)
      await tell(accepted(runId), executed(runId, { testedCommit: id, rowsWritten: 1 }))
    }),
  )
  expect(await tablesIn(sql, await viewOf(sql, {}))).toHaveLength(0)
  const merged = await Promise.all(names.map((name) => mergesOf(sql).merge(name)))
  expect(merged.map(({ commit }) => commit).sort((a, b) => a - b)).toEqual(names.map((_, n) => n + 1))
  const shown = await tablesIn(sql, await viewOf(sql, {}))
  expect(new Map(shown.map(({ name, contentId }) => [name, contentId]))).toEqual(made)
  const states = await sql`select distinct status from run`
  expect(states.map(({ status }) => status)).toEqual(['success'])
})
