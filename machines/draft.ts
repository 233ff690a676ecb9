import { assign, initialTransition, type SnapshotFrom, setup } from 'xstate'
import { advance, pathOf } from './advance.ts'
import { makeMigrate } from './migrate.ts'

/** A step is added whenever a stored snapshot would mean something else. */
export const { version: DRAFT_MACHINE_VERSION, migrate: migrateDraft } = makeMigrate('draft', [])

/** Counts the writes: a publish clears the dirty flag only if it lists the revision that is still current. */
export interface DraftContext {
  revision: number
}

export type DraftEvent =
  | { type: 'fileWritten' }
  | { type: 'published'; revision: number }
  | { type: 'rolledBack' }
  | { type: 'deleted' }

/** The draft of a pipeline: what its files are compared with what its runs execute. Effect: retire (stop what the pipeline started). */
export const draftMachine = setup({
  types: { context: {} as DraftContext, events: {} as DraftEvent },
  guards: {
    isCurrentRevision: ({ context, event }) =>
      event.type === 'published' && event.revision === context.revision,
  },
  actions: {
    countRevision: assign({ revision: ({ context }) => context.revision + 1 }),
    retire: () => {},
  },
}).createMachine({
  id: 'draft',
  context: { revision: 0 },
  initial: 'unpublished',
  states: {
    unpublished: {
      on: {
        fileWritten: { actions: ['countRevision'] },
        published: [{ target: 'clean', guard: 'isCurrentRevision' }, { target: 'dirty' }],
        deleted: { target: 'deleted', actions: ['retire'] },
      },
    },
    clean: {
      on: {
        fileWritten: { target: 'dirty', actions: ['countRevision'] },
        published: [{ target: 'clean', guard: 'isCurrentRevision' }, { target: 'dirty' }],
        // A version is added; what the files say beside it has not changed.
        rolledBack: { target: 'clean' },
        deleted: { target: 'deleted', actions: ['retire'] },
      },
    },
    dirty: {
      on: {
        fileWritten: { actions: ['countRevision'] },
        published: [{ target: 'clean', guard: 'isCurrentRevision' }, { target: 'dirty' }],
        rolledBack: { target: 'dirty' },
        deleted: { target: 'deleted', actions: ['retire'] },
      },
    },
    deleted: { type: 'final' },
  },
})

export type DraftSnapshot = SnapshotFrom<typeof draftMachine>

/** The draft of a pipeline that has just been created. */
export const newDraft = (): DraftSnapshot => initialTransition(draftMachine)[0]

export const advanceDraft = (snapshot: DraftSnapshot, event: DraftEvent) =>
  advance(draftMachine, snapshot, event)

/** The columns that are written from a snapshot, in the same UPDATE. */
export function draftColumns(snapshot: DraftSnapshot) {
  const state = pathOf(snapshot.value)
  return {
    draftDirty: state === 'unpublished' || state === 'dirty',
    draftRevision: snapshot.context.revision,
  }
}
