import type { Sql } from '../../drizzle/client.ts'
import { exchangeOf } from '../http/exchange.ts'
import { headOfMain } from '../versions/store/branches.ts'
import { keptCommit } from '../versions/store/kept-commits.ts'
import type { View } from '../versions/store/tables.ts'
import { openBranchNamed } from '../versions/store/user-branches.ts'
import { forbidden, noSuchWarehouse } from './errors.ts'
import type { Sessions } from './session.ts'
import { nameIn } from './warehouse.ts'

/** Sessions of callers with the credentials of the API. */
export function makeUserSessions({ sql }: { sql: Sql }): Sessions {
  async function viewOf(warehouse: string): Promise<{ view: View; openedAt?: Date }> {
    const name = nameIn(warehouse)
    if (name === null) return { view: { commit: await headOfMain(sql), branch: null } }
    const isNumber = /^\d{1,15}$/.test(name)
    const branch = isNumber ? null : await openBranchNamed(sql, name)
    if (branch !== null)
      return { view: { commit: branch.base, branch: branch.name }, openedAt: branch.createdAt }
    const { commit } = await keptCommit(sql, isNumber ? { commit: Number(name) } : { tag: name })
    if (commit === null) throw noSuchWarehouse(warehouse)
    return { view: { commit, branch: null } }
  }

  return {
    session: async (request, prefix) => ({
      ...(await viewOf(prefix)),
      isMain: nameIn(prefix) === null,
      own: null,
      visible: () => exchangeOf(request).access.visible(),
    }),
    async writer(_, prefix) {
      await viewOf(prefix)
      throw forbidden(`warehouse ${prefix} is read-only for users`)
    },
  }
}
