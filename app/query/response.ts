import { setImmediate as turn } from 'node:timers/promises'
import type { QueryResult } from './schema.ts'

/** A QueryResult whose rows are text already: they never become objects on their way from the engine to the client. */
export interface QueryAnswer extends Omit<QueryResult, 'rows'> {
  /** `{"a":1},{"a":2}`, some thousand rows at a time; few rows as bytes. */
  rowTexts: Iterable<string> | Uint8Array
}

/** Texts of that many rows take some milliseconds; longer answers are written piece by piece, so that others have their turns. */
const ROWS_AT_ONCE = 2_048

/** The answer as QueryResult describes it. */
export function responseOf({ columns, rowTexts, ...rest }: QueryAnswer): Response {
  const head = `{"columns":${JSON.stringify(columns)},"rows":[`
  const tail = `],${JSON.stringify(rest).slice(1)}`
  return new Response(bodyOf(head, rowTexts, tail), { headers: { 'content-type': 'application/json' } })

  function bodyOf(head: string, rows: QueryAnswer['rowTexts'], tail: string) {
    if (rows instanceof Uint8Array) return joined(head, rows, tail)
    const pieces = piecesOf(head, rows, tail)
    return rest.total_rows > ROWS_AT_ONCE ? streamOf(pieces) : [...pieces].join('')
  }
}

const encoder = new TextEncoder()

function joined(head: string, rows: Uint8Array, tail: string): Uint8Array<ArrayBuffer> {
  const [first, last] = [encoder.encode(head), encoder.encode(tail)]
  const all = new Uint8Array(first.length + rows.length + last.length)
  all.set(first)
  all.set(rows, first.length)
  all.set(last, first.length + rows.length)
  return all
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
