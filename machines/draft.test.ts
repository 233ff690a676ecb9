import { describe, expect, test } from 'bun:test'
import { pathOf } from './advance.ts'
import { type DraftEvent, draftColumns, draftMachine, newDraft } from './draft.ts'
import { expectMove, play } from './test-paths.ts'

const written: DraftEvent = { type: 'fileWritten' }
const rolledBack: DraftEvent = { type: 'rolledBack', isDraft: false }
const rolledBackToDraft: DraftEvent = { type: 'rolledBack', isDraft: true }
const deleted: DraftEvent = { type: 'deleted' }
const published = (revision: number): DraftEvent => ({ type: 'published', revision })

function played(...events: DraftEvent[]) {
  const { snapshot } = play(draftMachine, newDraft(), events)
  return { snapshot, state: pathOf(snapshot.value), ...draftColumns(snapshot) }
}

const STATES: Record<string, DraftEvent[]> = {
  unpublished: [],
  clean: [published(0)],
  dirty: [published(0), written],
  deleted: [deleted],
}
const TABLE: Record<string, Record<string, [string, ...string[]]>> = {
  unpublished: {
    written: ['unpublished'],
    publishedCurrent: ['clean'],
    publishedOlder: ['dirty'],
    deleted: ['deleted', 'retire'],
  },
  clean: {
    written: ['dirty'],
    publishedCurrent: ['clean'],
    publishedOlder: ['dirty'],
    rolledBack: ['dirty'],
    rolledBackToDraft: ['clean'],
    deleted: ['deleted', 'retire'],
  },
  dirty: {
    written: ['dirty'],
    publishedCurrent: ['clean'],
    publishedOlder: ['dirty'],
    rolledBack: ['dirty'],
    rolledBackToDraft: ['clean'],
    deleted: ['deleted', 'retire'],
  },
  deleted: {},
}

describe('every state and every event', () => {
  for (const [state, path] of Object.entries(STATES)) {
    const { snapshot, draftRevision } = played(...path)
    const events: Record<string, DraftEvent> = {
      written,
      rolledBack,
      rolledBackToDraft,
      deleted,
      publishedCurrent: published(draftRevision),
      publishedOlder: published(draftRevision - 1),
    }
    for (const [name, event] of Object.entries(events)) {
      const expected = TABLE[state]?.[name]
      test(`event ${name} in state ${state}: ${expected?.join(', ') ?? 'refused'}`, () => {
        expect(pathOf(snapshot.value)).toBe(state)
        expectMove(draftMachine, snapshot, event, expected)
      })
    }
  }
})

test('a write that a publish did not list leaves the draft dirty', () => {
  expect(played(written, written, published(1))).toMatchObject({ state: 'dirty', draftDirty: true })
  expect(played(written, written, published(2))).toMatchObject({ state: 'clean', draftDirty: false })
})

test('the revision counts only writes', () => {
  expect(played(written, published(1), written, rolledBack, written).draftRevision).toBe(3)
})

test('a draft that was never published counts as dirty', () => {
  expect(played().draftDirty).toBe(true)
})
