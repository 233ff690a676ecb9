// Finds the version of the lake that a request names by `branch` or `as_of`.
import type { Sql, SqlTx } from '../../drizzle/client.ts'
import type { VisibleTables } from '../../drizzle/visibility.ts'
import { AppError, invalid, notFound } from '../core/errors.ts'
import { instantOf } from '../core/instants.ts'
import { type LakeVersion, MAIN, REF_NAME } from '../core/lake-version.ts'
import { headOfMain } from './store/branches.ts'
import { type AsOf, keptCommit } from './store/kept-commits.ts'
import { currentColumns, entriesOf, tableIn, tablesIn, type View } from './store/tables.ts'
import { keptBranchNamed, openBranchNamed } from './store/user-branches.ts'

export { currentColumns, entriesOf, tableIn, tablesIn, type View }

const IS_TAG = new RegExp(REF_NAME)

/** Returns main at its head when neither field is given. Throws 400 for both, and 404 for an unknown or closed version. */
export async function viewOf(sql: Sql, { branch, as_of: asOf }: LakeVersion): Promise<View> {
  if (branch !== undefined && asOf !== undefined)
    throw invalid('as_of', 'cannot be used with branch: send one of the two')
  if (asOf !== undefined) return { commit: await commitAsOf(sql, asOf), branch: null }
  if (branch === undefined || branch === MAIN) return { commit: await headOfMain(sql), branch: null }
  const found = await openBranchNamed(sql, branch)
  if (found === null) throw noOpenBranch(branch)
  return { commit: found.base, branch }
}

/** `viewOf` for readers. They may also name the kept branch of a run that they see. */
export async function readableView(sql: Sql, version: LakeVersion, visible: VisibleTables): Promise<View> {
  const { branch, as_of: asOf } = version
  if (branch === undefined || asOf !== undefined || !branch.startsWith('run-')) return viewOf(sql, version)
  const found = await keptBranchNamed(sql, branch, visible)
  if (found === null) throw noOpenBranch(branch)
  return { commit: found.base, branch }
}

export const noOpenBranch = (name: string) => notFound(`open branch ${name}`)

/** The commit of main at a commit number, a time or a tag. Throws 404 for one that is unknown or no longer kept. */
export async function commitAsOf(sql: Sql | SqlTx, text: string | number, isLocked = false): Promise<number> {
  const { commit, oldest } = await keptCommit(sql, asOfIn(String(text)), isLocked)
  if (commit === null)
    throw new AppError(
      404,
      'NOT_FOUND',
      `version ${text} of main not found: the oldest kept commit is ${oldest}`,
    )
  return commit
}

function asOfIn(text: string): AsOf {
  if (/^\d{1,15}$/.test(text)) return { commit: Number(text) }
  if (IS_TAG.test(text)) return { tag: text }
  return { time: instantOf('as_of', text) }
}
