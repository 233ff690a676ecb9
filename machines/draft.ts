import { assign, initialTransition, type SnapshotFrom, setup } from 'xstate'
import { advance, pathOf } from './advance.ts'
import { makeMigrate } from './migrate.ts'

/** Add a migration step whenever the meaning of a stored snapshot changes. */
export const { version: DRAFT_MACHINE_VERSION, migrate: migrateDraft } = makeMigrate('draft', [])

/** Counts the writes. A publish clears the dirty flag only if it listed the current revision. */
interface DraftContext {
  revision: number
}

export type DraftEvent =
  | { type: 'fileWritten' }
  | { type: 'published'; revision: number }
  /** `isDraft`: the files of the draft are those of the new version. */
  | { type: 'rolledBack'; isDraft: boolean }
  | { type: 'deleted' }

/**
 * The draft of a pipeline: whether its files differ from the version that runs execute. The effect `retire` stops everything
 * that the pipeline started.
 */
export const draftMachine = setup({
  types: { context: {} as DraftContext, events: {} as DraftEvent },
  guards: {
    isCurrentRevision: ({ context, event }) =>
      event.type === 'published' && event.revision === context.revision,
    isDraft: ({ event }) => event.type === 'rolledBack' && event.isDraft,
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
        // Rollback adds a version and leaves the files of the draft alone.
        rolledBack: [{ target: 'clean', guard: 'isDraft' }, { target: 'dirty' }],
        deleted: { target: 'deleted', actions: ['retire'] },
      },
    },
    dirty: {
      on: {
        fileWritten: { actions: ['countRevision'] },
        published: [{ target: 'clean', guard: 'isCurrentRevision' }, { target: 'dirty' }],
        rolledBack: [{ target: 'clean', guard: 'isDraft' }, { target: 'dirty' }],
        deleted: { target: 'deleted', actions: ['retire'] },
      },
    },
    deleted: { type: 'final' },
  },
})

export type DraftSnapshot = SnapshotFrom<typeof draftMachine>

/** The draft of a new pipeline. */
export const newDraft = (): DraftSnapshot => initialTransition(draftMachine)[0]

export const advanceDraft = (snapshot: DraftSnapshot, event: DraftEvent) =>
  advance(draftMachine, snapshot, event)

/** Columns derived from a snapshot, written in the same UPDATE. */
export function draftColumns(snapshot: DraftSnapshot) {
  const state = pathOf(snapshot.value)
  return {
    draftDirty: state === 'unpublished' || state === 'dirty',
    draftRevision: snapshot.context.revision,
  }
}
