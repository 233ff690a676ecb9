import { type Reader, readerOf } from '../access/code-sight.ts'
import { exchangeOf } from './exchange.ts'

/** With whose eyes code looks that answers a request; null: it sees everything. */
export function readerBehind(request: Request): Reader | null {
  const { access, identity } = exchangeOf(request)
  return readerOf(access, identity)
}
