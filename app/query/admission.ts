// Limits the parallel queries of one API process, in total and of one user.
import { shareOf } from '../core/shares.ts'
import { busy } from './engine-errors.ts'

/** The HTTP client of a process makes at most 256 parallel calls, and calls to runners need some of them. */
const QUERIES_UNDER_WAY = 192

/** Does work that calls a query service. `sharer` is the user whose share counts. */
export type Admission = <Answer>(work: () => Promise<Answer>, sharer?: string | null) => Promise<Answer>

/** The admission throws 503 while too many calls are under way. */
export function makeAdmission(limit = QUERIES_UNDER_WAY): Admission {
  let underWay = 0
  const underWayOf = new Map<string, number>()

  function end(sharer: string | null) {
    underWay -= 1
    if (sharer === null) return
    const left = (underWayOf.get(sharer) ?? 1) - 1
    if (left === 0) underWayOf.delete(sharer)
    else underWayOf.set(sharer, left)
  }

  return async (work, sharer = null) => {
    if (underWay >= limit) throw busy(`${underWay} queries are running, try again later`)
    const own = sharer === null ? 0 : (underWayOf.get(sharer) ?? 0)
    if (own >= shareOf(limit))
      throw busy(`${own} queries of user ${sharer} are running, the limit of one user: try again later`)
    underWay += 1
    if (sharer !== null) underWayOf.set(sharer, own + 1)
    try {
      return await work()
    } finally {
      end(sharer)
    }
  }
}
