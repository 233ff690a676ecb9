import type { JsonRows } from '../../lake/engine/arrow-json.ts'

/** A longer answer goes out in chunks, as fast as its client reads. */
const WHOLE_BYTES_MAX = 262_144

/** `{"columns":[...],"rows":[...], ...}`: an answer whose rows are JSON already; its other fields become JSON here. */
export function responseOf<Answer extends JsonRows>({ columns, chunks, ...rest }: Answer): Response {
  const tail = JSON.stringify(rest)
  const pieces = [
    encoder.encode(`{"columns":${JSON.stringify(columns)},"rows":[`),
    ...chunks,
    encoder.encode(tail === '{}' ? ']}' : `],${tail.slice(1)}`),
  ]
  const bytes = pieces.reduce((sum, { length }) => sum + length, 0)
  const body = bytes > WHOLE_BYTES_MAX ? streamOf(pieces) : joined(pieces, bytes)
  return new Response(body, { headers: { 'content-type': 'application/json' } })
}

const encoder = new TextEncoder()

function joined(pieces: readonly Uint8Array[], bytes: number): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(bytes)
  let at = 0
  for (const piece of pieces) {
    all.set(piece, at)
    at += piece.length
  }
  return all
}

function streamOf(pieces: Uint8Array<ArrayBuffer>[]): ReadableStream<Uint8Array<ArrayBuffer>> {
  const left = pieces.values()
  return new ReadableStream(
    {
      pull(controller) {
        const { done, value } = left.next()
        if (done) controller.close()
        else controller.enqueue(value)
      },
    },
    { highWaterMark: 0 },
  )
}
