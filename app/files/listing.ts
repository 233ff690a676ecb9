import { limits } from '../core/limits.ts'
import type { ObjectStore, StoredObject } from '../objects/port.ts'

/** Every object under a prefix, page by page, in the order of the keys. */
export async function* everyObject(objects: ObjectStore, prefix: string): AsyncGenerator<StoredObject> {
  let after: string | undefined
  for (;;) {
    const page = await objects.list(prefix, { limit: limits.listCap, after })
    yield* page.objects
    after = page.objects.at(-1)?.key
    if (!page.truncated || after === undefined) return
  }
}
