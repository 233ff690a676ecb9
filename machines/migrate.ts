import type { Stored } from './advance.ts'

/** Converts a snapshot of one version to the next version. Pure. Migrations stay as long as rows of their version may exist. */
export type Migration = (stored: Stored) => Stored

/** A newer program wrote the row; this program must leave the row alone. */
export class NewerVersion extends Error {
  constructor(
    readonly machine: string,
    readonly version: number,
  ) {
    super(
      `${machine} not changed: a newer program wrote it (machine version ${version}); upgrade this replica`,
    )
  }
}

/**
 * Migrates stored snapshots of older versions to the current version. `steps[0]` leads from version 1 to 2, and so on. So the
 * current version is the number of steps plus one.
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
