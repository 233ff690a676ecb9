// Checks the requirements of a commit: claims about the table from which the commit was computed. A claim that no longer holds
// is a conflict. Source: Iceberg REST catalog OpenAPI, TableRequirement.

import type { TableMetadata } from './metadata.ts'
import type { TableRequirement } from './wire.ts'

/** The table has changed since the commit was computed: 409 CommitFailedException. */
export class CommitFailed extends Error {
  override readonly name = 'CommitFailed'
}

/**
 * `null` means that the table does not exist.
 * @throws CommitFailed with the first claim that does not hold
 */
export function checkRequirements(metadata: TableMetadata | null, requirements: readonly TableRequirement[]) {
  for (const requirement of requirements) checkRequirement(metadata, requirement)
}

function checkRequirement(metadata: TableMetadata | null, requirement: TableRequirement) {
  if (requirement.type === 'assert-create') {
    if (metadata) throw new CommitFailed('the table already exists')
    return
  }
  if (!metadata) throw new CommitFailed(`the table does not exist (${requirement.type})`)
  switch (requirement.type) {
    case 'assert-table-uuid':
      return same('table uuid', requirement.uuid.toLowerCase(), metadata['table-uuid'].toLowerCase())
    case 'assert-ref-snapshot-id':
      return same(
        `snapshot of ${requirement.ref}`,
        requirement['snapshot-id'],
        Object.hasOwn(metadata.refs, requirement.ref)
          ? (metadata.refs[requirement.ref]?.['snapshot-id'] ?? null)
          : null,
      )
    case 'assert-last-assigned-field-id':
      return same('last field id', requirement['last-assigned-field-id'], metadata['last-column-id'])
    case 'assert-current-schema-id':
      return same('current schema', requirement['current-schema-id'], metadata['current-schema-id'])
    case 'assert-last-assigned-partition-id':
      return same(
        'last partition id',
        requirement['last-assigned-partition-id'],
        metadata['last-partition-id'],
      )
    case 'assert-default-spec-id':
      return same('default partition spec', requirement['default-spec-id'], metadata['default-spec-id'])
    case 'assert-default-sort-order-id':
      return same(
        'default sort order',
        requirement['default-sort-order-id'],
        metadata['default-sort-order-id'],
      )
  }
}

function same<T extends string | number | bigint | null>(subject: string, expected: T, actual: T) {
  if (expected === actual) return
  throw new CommitFailed(
    `the ${subject} has changed: expected ${expected ?? 'none'}, found ${actual ?? 'none'}`,
  )
}
