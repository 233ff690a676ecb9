import { describe, expect, test } from 'bun:test'
import { accepts, IllegalMove, pathOf, restore, store } from './advance.ts'
import { advanceDraft, type DraftEvent, draftColumns, draftMachine, migrateDraft, newDraft } from './draft.ts'

const written: DraftEvent = { type: 'fileWritten' }
const rolledBack: DraftEvent = { type: 'rolledBack' }
const deleted: DraftEvent = { type: 'deleted' }
const published = (revision: number): DraftEvent => ({ type: 'published', revision })

function play(...events: DraftEvent[]) {
  let snapshot = newDraft()
  let effects: string[] = []
  for (const event of events) {
    const stored = JSON.parse(JSON.stringify(store(snapshot)))
    const move = advanceDraft(restore(draftMachine, stored), event)
    snapshot = move.next
    effects = move.effects
  }
  return { snapshot, effects, state: pathOf(snapshot.value), ...draftColumns(snapshot) }
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
    rolledBack: ['clean'],
    deleted: ['deleted', 'retire'],
  },
  dirty: {
    written: ['dirty'],
    publishedCurrent: ['clean'],
    publishedOlder: ['dirty'],
    rolledBack: ['dirty'],
    deleted: ['deleted', 'retire'],
  },
  deleted: {},
}

describe('every state and every event', () => {
  for (const [state, path] of Object.entries(STATES)) {
    const { snapshot, draftRevision } = play(...path)
    const events: Record<string, DraftEvent> = {
      written,
      rolledBack,
      deleted,
      publishedCurrent: published(draftRevision),
      publishedOlder: published(draftRevision - 1),
    }
    for (const [name, event] of Object.entries(events)) {
      const expected = TABLE[state]?.[name]
      test(`${name} in ${state}: ${expected?.join(', ') ?? 'refused'}`, () => {
        expect(pathOf(snapshot.value)).toBe(state)
        if (expected === undefined) {
          expect(accepts(snapshot, event)).toBe(false)
          expect(() => advanceDraft(snapshot, event)).toThrow(IllegalMove)
          return
        }
        const move = advanceDraft(snapshot, event)
        expect([move.to, ...move.effects]).toEqual(expected)
      })
    }
  }
})

test('a write that a publish did not list leaves the draft dirty', () => {
  expect(play(written, written, published(1))).toMatchObject({ state: 'dirty', draftDirty: true })
  expect(play(written, written, published(2))).toMatchObject({ state: 'clean', draftDirty: false })
})

test('the revision counts writes and nothing else', () => {
  expect(play(written, published(1), written, rolledBack, written).draftRevision).toBe(3)
})

test('a draft that was never published counts as dirty', () => {
  expect(play().draftDirty).toBe(true)
})

test('a snapshot that a newer program has written is not touched', () => {
  expect(() => migrateDraft(99, store(newDraft()))).toThrow('newer program')
})
