import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import {
  ATTEMPT_MS,
  breathMs,
  cutoffsAt,
  effectiveRetention,
  expiredSnapshots,
  isTickDue,
  LAKE_GRACE_MS,
  OVERRIDABLE,
  type RetentionConfig,
} from './retention.ts'

const HOUR = 3_600_000
const DAY = 24 * HOUR
const NOW = Date.UTC(2026, 10, 21)

const system: RetentionConfig = {
  runsMaxPerPipeline: 100,
  runsMaxAgeDays: 90,
  logsMaxAgeDays: 30,
  qualityResultsMaxPerTest: 100,
  softDeletePurgeDays: 30,
  stuckRunTimeoutMinutes: 120,
  auditLogMaxAgeDays: 365,
  nessieOrphanBranchMaxAgeHours: 6,
  reaperIntervalMinutes: 60,
  icebergSnapshotMaxAgeDays: 7,
  icebergOrphanFileMaxAgeDays: 3,
}

describe('effective settings', () => {
  test('settings without overrides equal the system’s settings', () => {
    expect(effectiveRetention(system, null)).toEqual(system)
    expect(effectiveRetention(system, {})).toEqual(system)
  })

  test('an override replaces only its own setting, even with 0', () => {
    for (let chosen = 0; chosen < 2 ** OVERRIDABLE.length; chosen++) {
      const overrides = Object.fromEntries(
        OVERRIDABLE.map((name, at) => [name, chosen & (1 << at) ? at : null]),
      )
      const effective = effectiveRetention(system, overrides)
      for (const name of Object.keys(system) as (keyof RetentionConfig)[]) {
        const at = [...OVERRIDABLE].map(String).indexOf(name)
        expect([name, effective[name]]).toEqual([name, at >= 0 && chosen & (1 << at) ? at : system[name]])
      }
    }
  })
})

describe('cut-offs', () => {
  test('each age counts back from now in its own unit', () => {
    expect(cutoffsAt(NOW, system)).toEqual({
      runs: NOW - 90 * DAY,
      logs: NOW - 30 * DAY,
      softDeleted: NOW - 30 * DAY,
      audit: NOW - 365 * DAY,
      orphanBranches: NOW - 6 * HOUR,
      snapshots: NOW - 7 * DAY,
      lakeHistory: NOW - 7 * DAY,
      lakeFiles: NOW - 3 * DAY - ATTEMPT_MS,
    })
  })

  test('lake data and bookkeeping keep their grace period with any settings', () => {
    const age = fc.integer({ min: 0, max: 400 })
    fc.assert(
      fc.property(age, age, age, (snapshotDays, fileDays, branchHours) => {
        const cutoffs = cutoffsAt(NOW, {
          ...system,
          icebergSnapshotMaxAgeDays: snapshotDays,
          icebergOrphanFileMaxAgeDays: fileDays,
          nessieOrphanBranchMaxAgeHours: branchHours,
        })
        expect(cutoffs.snapshots).toBeLessThanOrEqual(NOW - LAKE_GRACE_MS)
        expect(cutoffs.lakeFiles).toBeLessThanOrEqual(NOW - LAKE_GRACE_MS - ATTEMPT_MS)
        expect(cutoffs.lakeHistory).toBeLessThanOrEqual(
          Math.min(cutoffs.snapshots, cutoffs.lakeFiles + ATTEMPT_MS, cutoffs.orphanBranches),
        )
      }),
    )
  })

  test('the grace exceeds an attempt of 6 h plus a query', () => {
    expect(LAKE_GRACE_MS).toBeGreaterThan(6 * HOUR + 30_000)
  })
})

test('a tick is due at the start and after each interval', () => {
  expect(isTickDue(NOW, null, 60)).toBe(true)
  expect(isTickDue(NOW, NOW, 60)).toBe(false)
  expect(isTickDue(NOW, NOW - HOUR + 1, 60)).toBe(false)
  expect(isTickDue(NOW, NOW - HOUR, 60)).toBe(true)
  // After the clock was set back, the interval might never pass.
  expect(isTickDue(NOW, NOW + 365 * DAY, 60)).toBe(true)
})

describe('expired snapshots', () => {
  const snapshots = [1n, 2n, 3n, 4n, 5n].map((id) => ({ id, createdAt: Number(id) * 10 }))
  const expired = (over: Partial<Parameters<typeof expiredSnapshots>[1]>) =>
    expiredSnapshots(snapshots, {
      current: 5n,
      named: new Set(),
      retained: new Set(),
      cutoff: 1_000,
      ...over,
    })

  test('all but the current snapshot expire when nothing retains them', () => {
    expect(expired({})).toEqual([1n, 2n, 3n, 4n])
  })

  test('a current, named, retained or young snapshot stays in every combination', () => {
    for (let held = 0; held < 16; held++) {
      const gone = expired({
        current: held & 1 ? 2n : 5n,
        named: new Set(held & 2 ? [2n] : []),
        retained: new Set(held & 4 ? [2n] : []),
        cutoff: held & 8 ? 20 : 1_000,
      }).includes(2n)
      expect([held, gone]).toEqual([held, held === 0])
    }
  })

  test('a table without snapshots has nothing to expire', () => {
    expect(
      expiredSnapshots([], { current: undefined, named: new Set(), retained: new Set(), cutoff: NOW }),
    ).toEqual([])
  })
})

test("a pause is a share of the batch's time, within limits", () => {
  expect(breathMs(40, 0.5, 1_000)).toBe(20)
  expect(breathMs(0, 0.5, 1_000)).toBe(1)
  expect(breathMs(60_000, 1, 1_000)).toBe(1_000)
})
