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
  test('every state is reached, every transition taken, every guard seen to hold and to fail', () => {
    expectWhole(draftMachine, paths, places)
  })
})
