import { describe, expect, test } from 'bun:test'
import { pathOf } from './advance.ts'
import { draftColumns, draftMachine, newDraft } from './draft.ts'
import {
  guardsOf,
  type Model,
  statesOf,
  transitionsOf,
  walkEveryPlace,
  walkSimplePaths,
} from './test-paths.ts'

const model: Model<typeof draftMachine> = {
  machine: draftMachine,
  beginnings: [newDraft()],
  events: {
    'file written': () => ({ type: 'fileWritten' }),
    'published as it is': ({ context }) => ({ type: 'published', revision: context.revision }),
    'published as it was': ({ context }) => ({ type: 'published', revision: context.revision - 1 }),
    'rolled back': () => ({ type: 'rolledBack' }),
    deleted: () => ({ type: 'deleted' }),
  },
  // Revisions are only ever compared with the one that is current.
  placeOf: ({ value }) => pathOf(value),
  check(snapshot) {
    const state = pathOf(snapshot.value)
    const { draftDirty, draftRevision } = draftColumns(snapshot)
    expect(draftDirty).toBe(['unpublished', 'dirty'].includes(state))
    expect(draftRevision).toBe(snapshot.context.revision)
  },
}

describe('draft', () => {
  const paths = walkSimplePaths(model)
  const places = walkEveryPlace(model)

  test('all its paths are walked', () => {
    expect(paths.paths).toBeGreaterThan(10)
  })
  test('every state is reached', () => {
    expect([...paths.states].sort()).toEqual(statesOf(draftMachine).sort())
  })
  test('every transition is taken', () => {
    const taken = new Set([...paths.taken, ...places.taken])
    expect([...taken].sort()).toEqual(transitionsOf(draftMachine).sort())
  })
  test('every guard is seen to hold and to fail', () => {
    expect([...places.guards].sort()).toEqual(guardsOf(draftMachine).sort())
  })
})
