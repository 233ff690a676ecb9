import { setImmediate as turn } from 'node:timers/promises'
import type { QueryResult } from './schema.ts'

/** A QueryResult whose rows are text already: they never become objects on their way from the engine to the client. */
export interface QueryAnswer extends Omit<QueryResult, 'rows'> {
  /** `{"a":1},{"a":2}`, some thousand rows at a time. */
  rowTexts: Iterable<string>
}

/** Texts of that many rows take some milliseconds; longer answers are written piece by piece, so that others have their turns. */
const ROWS_AT_ONCE = 2_048

/** The answer as QueryResult describes it. */
export function responseOf({ columns, rowTexts, ...rest }: QueryAnswer): Response {
  const pieces = piecesOf(
    `{"columns":${JSON.stringify(columns)},"rows":[`,
    rowTexts,
    `],${JSON.stringify(rest).slice(1)}`,
  )
  const body = rest.total_rows > ROWS_AT_ONCE ? streamOf(pieces) : [...pieces].join('')
  return new Response(body, { headers: { 'content-type': 'application/json' } })
}

function* piecesOf(head: string, rowTexts: Iterable<string>, tail: string): Generator<string> {
  yield head
  let isFirst = true
  for (const text of rowTexts) {
    yield isFirst ? text : `,${text}`
    isFirst = false
  }
  yield tail
}

function streamOf(pieces: Generator<string>): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder()
  return new ReadableStream({
    async pull(controller) {
      await turn()
      const { done, value } = pieces.next()
      if (done) controller.close()
      else controller.enqueue(encoder.encode(value))
    },
    cancel() {
      pieces.return(undefined)
    },
  })
}
