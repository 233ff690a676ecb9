import { limits } from '../core/limits.ts'
import { type Body, type ObjectBody, type ObjectStore, type ObjectText, ObjectTooLarge } from './port.ts'

/**
 * The chunks of a body. Throws ObjectTooLarge as soon as they exceed `maxBytes`. However the reader ends, the source is
 * cancelled.
 */
export async function* chunksOf(body: Body, maxBytes = Number.POSITIVE_INFINITY): AsyncGenerator<Uint8Array> {
  if (body instanceof Uint8Array) {
    if (body.byteLength > maxBytes) throw new ObjectTooLarge(maxBytes)
    yield body
    return
  }
  let size = 0
  for await (const chunk of body) {
    size += chunk.byteLength
    if (size > maxBytes) throw new ObjectTooLarge(maxBytes)
    yield chunk
  }
}

/** The bytes of an object; null when it does not exist. */
export async function bytesOf(objects: ObjectStore, key: string): Promise<Uint8Array | null> {
  const found = await objects.get(key)
  return found && new Uint8Array(await new Response(found.body).arrayBuffer())
}

/** Reads an object as UTF-8. Invalid bytes are replaced, and a byte order mark is preserved. */
export async function textOf(
  { body, ...info }: ObjectBody,
  maxBytes: number = limits.uploadBytes,
): Promise<ObjectText> {
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  let text = ''
  for await (const chunk of chunksOf(body, maxBytes)) text += decoder.decode(chunk, { stream: true })
  return { ...info, text: text + decoder.decode() }
}
