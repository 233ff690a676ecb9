import { describe, expect, test } from 'bun:test'
import { pathOf } from './advance.ts'
import { draftColumns, draftMachine, newDraft } from './draft.ts'
import { expectWhole, type Model, walkEveryPlace, walkSimplePaths } from './test-paths.ts'

const model: Model<typeof draftMachine> = {
  machine: draftMachine,
  beginnings: [newDraft()],
  events: {
    'file written': () => ({ type: 'fileWritten' }),
    'published as it is': ({ context }) => ({ type: 'published', revision: context.revision }),
    'published as it was': ({ context }) => ({ type: 'published', revision: context.revision - 1 }),
    'rolled back': () => ({ type: 'rolledBack', isDraft: false }),
    'rolled back to the draft': () => ({ type: 'rolledBack', isDraft: true }),
    deleted: () => ({ type: 'deleted' }),
  },
  // Guards only compare a revision with the current revision, so the state alone identifies a place.
  coordinateOf: ({ value }) => pathOf(value),
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

  test('walks all simple paths of the draft statechart', () => {
    expect(paths.paths).toBeGreaterThan(10)
  })
  test('reaches every state, transition and guard outcome of a draft', () => {
    expectWhole(draftMachine, paths, places)
  })
})
