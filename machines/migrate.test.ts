import { describe, expect, test } from 'bun:test'
import { initialTransition, setup } from 'xstate'
import { advance, pathOf, restore, type Stored, store } from './advance.ts'
import { type Migration, makeMigrate, NewerVersion } from './migrate.ts'

// A door with three versions of its machine. Version 1 knew `open` and `shut`. Version 2 renames `shut` to `closed` and counts
// openings. Version 3 splits `closed` into `closed.unlocked` and `closed.locked`, and stores the keeper of the key.
const toVersion2: Migration = ({ value, context, status }) => ({
  value: value === 'shut' ? 'closed' : value,
  context: { ...(context as object), openings: 0 },
  status,
})
const toVersion3: Migration = ({ value, context, status }) => ({
  value: value === 'closed' ? { closed: 'unlocked' } : value,
  context: { ...(context as object), keeper: null },
  status,
})
const { version, migrate } = makeMigrate('door', [toVersion2, toVersion3])

const door = setup({
  types: {
    context: {} as { openings: number; keeper: string | null },
    events: {} as { type: 'opened' | 'closed' | 'locked' | 'removed' },
  },
}).createMachine({
  id: 'door',
  context: { openings: 0, keeper: null },
  initial: 'closed',
  states: {
    open: { on: { closed: 'closed', removed: 'gone' } },
    closed: {
      initial: 'unlocked',
      states: { unlocked: { on: { locked: 'locked', opened: '#door.open' } }, locked: {} },
    },
    gone: { type: 'final' },
  },
})

const VERSION_1: Stored = { value: 'shut', context: {}, status: 'active' }
const VERSION_2: Stored = { value: 'closed', context: { openings: 7 }, status: 'active' }

describe('a stored snapshot of a machine', () => {
  test('the current version is the number of steps plus one', () => {
    expect(version).toBe(3)
    expect(makeMigrate('new', []).version).toBe(1)
  })

  test('a snapshot of version 1 takes every step in order', () => {
    expect(migrate(1, VERSION_1)).toEqual({
      value: { closed: 'unlocked' },
      context: { openings: 0, keeper: null },
      status: 'active',
    })
  })

  test('a snapshot of version 2 takes the last step and keeps counters', () => {
    expect(migrate(2, VERSION_2)).toEqual({
      value: { closed: 'unlocked' },
      context: { openings: 7, keeper: null },
      status: 'active',
    })
  })

  test('a snapshot of the current version stays unchanged', () => {
    const current = store(initialTransition(door)[0])
    expect(migrate(3, current)).toBe(current)
  })

  test('a newer snapshot is refused with its machine and version', () => {
    const refused = () => migrate(4, VERSION_2)
    expect(refused).toThrow(NewerVersion)
    try {
      refused()
    } catch (error) {
      expect(error).toMatchObject({ machine: 'door', version: 4 })
    }
  })

  test('a migration does not change the stored snapshot', () => {
    const before = JSON.stringify(VERSION_1)
    migrate(1, Object.freeze(VERSION_1))
    expect(JSON.stringify(VERSION_1)).toBe(before)
  })

  test('a migrated snapshot accepts events and is stored as current', () => {
    for (const [from, stored] of [
      [1, VERSION_1],
      [2, VERSION_2],
    ] as const) {
      const asStored = JSON.parse(JSON.stringify(stored))
      const revived = restore(door, migrate(from, asStored))
      const { next, to } = advance(door, revived, { type: 'locked' })
      expect(to).toBe('closed.locked')
      const again = JSON.parse(JSON.stringify(store(next)))
      expect(pathOf(restore(door, migrate(version, again)).value)).toBe('closed.locked')
    }
  })

  test('a final state stays final after its migration', () => {
    const gone = restore(door, migrate(1, { value: 'gone', context: {}, status: 'done' }))
    expect(() => advance(door, gone, { type: 'opened' })).toThrow('does not accept')
  })
})
