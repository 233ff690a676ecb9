import type { Stored } from './advance.ts'

/** Brings a snapshot of one version to the next. Pure, and kept as long as rows of that version may exist. */
export type Migration = (stored: Stored) => Stored

/** The row belongs to a newer program; this one leaves it alone. */
export class NewerVersion extends Error {
  constructor(
    readonly machine: string,
    readonly version: number,
  ) {
    super(`a newer program wrote this ${machine} (machine version ${version}): it is left alone`)
  }
}

/**
 * Stored snapshots of older versions of a machine, brought to the current one. `steps[0]` leads from version 1 to 2, and
 * so on: the current version is one more than there are steps.
 */
export function makeMigrate(machine: string, steps: readonly Migration[]) {
  const current = steps.length + 1
  return {
    version: current,
    migrate(version: number, stored: Stored): Stored {
      if (version > current) throw new NewerVersion(machine, version)
      return steps.slice(version - 1).reduce((older, step) => step(older), stored)
    },
  }
}
