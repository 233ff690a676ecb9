import { setImmediate as turn } from 'node:timers/promises'
import type { QueryResult } from './schema.ts'

/** A QueryResult whose rows are text already: they never become objects on their way from the engine to the client. */
export interface QueryAnswer extends Omit<QueryResult, 'rows'> {
  /** `{"a":1},{"a":2}` in UTF-8, some thousand rows at a time. None is empty. */
  rowTexts: Iterable<Uint8Array>
}

/** Texts of that many rows take some milliseconds; longer answers are written piece by piece, so that others have their turns. */
const ROWS_AT_ONCE = 2_048

/** The answer as QueryResult describes it. */
export function responseOf({ columns, rowTexts, ...rest }: QueryAnswer): Response {
  const pieces = piecesOf(
    encoder.encode(`{"columns":${JSON.stringify(columns)},"rows":[`),
    rowTexts,
    encoder.encode(`],${JSON.stringify(rest).slice(1)}`),
  )
  const body = rest.total_rows > ROWS_AT_ONCE ? streamOf(pieces) : joined([...pieces])
  return new Response(body, { headers: { 'content-type': 'application/json' } })
}

const encoder = new TextEncoder()
const COMMA = encoder.encode(',')

function* piecesOf(
  head: Uint8Array,
  rowTexts: Iterable<Uint8Array>,
  tail: Uint8Array,
): Generator<Uint8Array> {
  yield head
  let isFirst = true
  for (const text of rowTexts) {
    if (!isFirst) yield COMMA
    yield text
    isFirst = false
  }
  yield tail
}

function joined(pieces: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(pieces.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const piece of pieces) {
    all.set(piece, at)
    at += piece.length
  }
  return all
}

function streamOf(pieces: Generator<Uint8Array>): ReadableStream<Uint8Array> {
  return new ReadableStream({
    async pull(controller) {
      await turn()
      const { done, value } = pieces.next()
      if (done) controller.close()
      else controller.enqueue(value)
    },
    cancel() {
      pieces.return(undefined)
    },
  })
}
