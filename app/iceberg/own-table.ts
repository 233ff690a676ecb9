// The rights of a session to its own table: an attempt sees and writes its target.

import { type TableName, tableKey } from '../../ground/names.ts'
import { CommitFailed } from '../../lake/iceberg/format/requirements.ts'
import { EVERYTHING, type Visible } from '../core/access.ts'
import { forbidden } from './errors.ts'
import type { Session } from './session.ts'

/** An attempt always sees its own target table. */
export const visibilityFor = ({ own, visible }: Session, table: TableName): Promise<Visible> =>
  own !== null && tableKey(own.claims.target) === tableKey(table) ? Promise.resolve(EVERYTHING) : visible()

export type Own = NonNullable<Session['own']>

export function ownOf({ own }: Session): Own {
  if (own === null) throw forbidden('main is read-only: commit to the branch of an attempt')
  return own
}

export function checkWritable({ claims: { target }, branch }: Own, table: TableName) {
  if (tableKey(target) !== tableKey(table))
    throw forbidden(`this attempt may write table ${tableKey(target)} only`)
  if (branch.state !== 'open') throw new CommitFailed(`branch ${branch.name} is ${branch.state}, not open`)
}
