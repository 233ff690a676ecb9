import { makeSlots, type Slots, TooMany } from '../../ground/process/slots.ts'
import { arrowToJson, type JsonOptions, type JsonRows, SchemaTooLarge } from '../../lake/engine/arrow-json.ts'
import { JsonTooLarge } from '../../lake/engine/json-bytes.ts'
import { AppError } from '../core/errors.ts'

/** Answers over 1 MB of JSON that are written in parallel. Each takes up to `answerBytes` and 32 MB of Arrow. */
const LARGE_ANSWERS_WRITTEN = 4
/** Large answers that wait for a slot, each with its Arrow. The next one gets 503. */
const LARGE_ANSWERS_WAITING = 32

/**
 * Converts the rows of an engine's answer to JSON. Throws AppError: 400 when the answer is too large, 503 when too many answers
 * wait.
 */
export type EngineRows = (
  arrow: Uint8Array,
  options: Omit<JsonOptions, 'beforeLarge'> & { signal: AbortSignal },
) => Promise<JsonRows>

/**
 * `writing` limits the large answers that are written in parallel. One answer may take `QUERY_ANSWER_LIMIT` of memory. Parallel
 * answers take turns, so without a limit all of them would stay in memory until the end.
 */
export function makeEngineRows(
  writing: Slots = makeSlots(LARGE_ANSWERS_WRITTEN, LARGE_ANSWERS_WAITING),
): EngineRows {
  return async (arrow, options) => {
    let release: (() => void) | undefined
    const beforeLarge = async () => {
      release = await writing.acquire(options.signal)
    }
    try {
      return await arrowToJson(arrow, { ...options, beforeLarge })
    } catch (error) {
      if (error instanceof TooMany)
        throw new AppError(503, 'UNAVAILABLE', 'too many large results are being sent: try again later', {
          cause: error,
        })
      if (!(error instanceof JsonTooLarge) && !(error instanceof SchemaTooLarge)) throw error
      throw new AppError(400, 'INVALID_ARGUMENT', error.message, { cause: error })
    } finally {
      release?.()
    }
  }
}

/** A longer answer is streamed in chunks, at the speed of its client. */
const WHOLE_BYTES_MAX = 262_144

/** The response `{"columns":[...],"rows":[...], ...}`. Rows are already JSON; the other fields are serialized here. */
export function responseOf<Answer extends JsonRows>({ columns, chunks, ...others }: Answer): Response {
  const tail = JSON.stringify(others)
  return responseWith([
    encoder.encode(`{"columns":${JSON.stringify(columns)},"rows":[`),
    ...chunks,
    encoder.encode(tail === '{}' ? ']}' : `],${tail.slice(1)}`),
  ])
}

/** The response `{"columns":[...],"added":[...],"removed":[...],"changed":[...],"truncated":...}` of compared rows. */
export function listsResponseOf({
  added,
  removed,
  changed,
  truncated,
}: Record<'added' | 'removed' | 'changed', JsonRows> & { truncated: boolean }): Response {
  const list = (name: string, { chunks }: JsonRows) => [
    encoder.encode(`,"${name}":[`),
    ...chunks,
    encoder.encode(']'),
  ]
  return responseWith([
    encoder.encode(`{"columns":${JSON.stringify(added.columns)}`),
    ...list('added', added),
    ...list('removed', removed),
    ...list('changed', changed),
    encoder.encode(`,"truncated":${truncated}}`),
  ])
}

function responseWith(pieces: Uint8Array<ArrayBuffer>[]): Response {
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
  const remaining = pieces.values()
  return new ReadableStream(
    {
      pull(controller) {
        const { done, value } = remaining.next()
        if (done) controller.close()
        else controller.enqueue(value)
      },
    },
    { highWaterMark: 0 },
  )
}
