import { limits } from '../core/limits.ts'
import type { ObjectStore, StoredObject } from '../objects/port.ts'

/** Yields every object under a prefix in key order, page by page. */
export async function* everyObject(objects: ObjectStore, prefix: string): AsyncGenerator<StoredObject> {
  let after: string | undefined
  for (;;) {
    const page = await objects.list(prefix, { limit: limits.listCap, after })
    yield* page.objects
    after = page.objects.at(-1)?.key
    if (!page.truncated || after === undefined) return
  }
}
