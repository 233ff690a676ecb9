// Threads reach the object store by messages to the process that has the store's client, because the client is too heavy for
// threads. Every call is answered. When the process ends, the thread ends too, or the call fails.
import { bytesOf } from '../../app/objects/body.ts'
import type { ObjectPage, ObjectStore, VersionPage } from '../../app/objects/port.ts'
import type { ReaperObjects } from '../../app/retention/store/reaping.ts'
import type { ObjectAnswer, ObjectCall } from '../messages/object-calls.ts'

/** The thread's side. The caller passes every answer that arrives to `answered`. */
export function makeObjectCalls(post: (id: number, call: ObjectCall) => void): {
  objects: ReaperObjects
  answered(id: number, answer: ObjectAnswer): void
} {
  const waiting = new Map<number, { op: ObjectCall['op']; settle: PromiseWithResolvers<ObjectAnswer> }>()
  let last = 0

  async function ask(call: ObjectCall): Promise<Exclude<ObjectAnswer, { op: 'failed' }>> {
    const id = ++last
    const settle = Promise.withResolvers<ObjectAnswer>()
    waiting.set(id, { op: call.op, settle })
    post(id, call)
    const answer = await settle.promise
    if (answer.op === 'failed') throw new Error(`object store ${call.op} failed: ${answer.message}`)
    return answer
  }
  const mismatch = (op: string): never => {
    throw new Error(`answer does not match the object store call ${op}`)
  }

  return {
    answered(id, answer) {
      waiting.get(id)?.settle.resolve(answer)
      waiting.delete(id)
    },
    objects: {
      async list(prefix, { limit, after }): Promise<ObjectPage> {
        const answer = await ask({ op: 'list', prefix, limit, ...(after !== undefined && { after }) })
        return answer.op === 'list' ? answer.page : mismatch('list')
      },
      async versions(prefix, after): Promise<VersionPage> {
        const answer = await ask({ op: 'versions', prefix, ...(after !== undefined && { after }) })
        return answer.op === 'versions' ? answer.page : mismatch('versions')
      },
      async read(key) {
        const answer = await ask({ op: 'read', key })
        return answer.op === 'read' ? answer.bytes : mismatch('read')
      },
      put: async (key, bytes) => void (await ask({ op: 'put', key, bytes })),
      remove: async (key) => void (await ask({ op: 'remove', key })),
      removeVersion: async (key, versionId) => void (await ask({ op: 'removeVersion', key, versionId })),
    },
  }
}

/** The other side: performs one call on the store itself. Never rejects. */
export async function answerObjectCall(objects: ObjectStore, call: ObjectCall): Promise<ObjectAnswer> {
  try {
    switch (call.op) {
      case 'list':
        return { op: 'list', page: await objects.list(call.prefix, call) }
      case 'versions':
        return { op: 'versions', page: await objects.versions(call.prefix, call.after) }
      case 'read':
        return { op: 'read', bytes: await bytesOf(objects, call.key) }
      case 'put':
        await objects.put(call.key, call.bytes)
        return { op: 'done' }
      case 'remove':
        await objects.delete(call.key)
        return { op: 'done' }
      case 'removeVersion':
        await objects.deleteVersion(call.key, call.versionId)
        return { op: 'done' }
      default:
        return call satisfies never
    }
  } catch (error) {
    return { op: 'failed', message: error instanceof Error ? error.message : String(error) }
  }
}

/** Direct access for the reaper, without a thread: for tests and for code that has the store itself. */
export const directObjects = (objects: ObjectStore): ReaperObjects => ({
  list: objects.list,
  versions: objects.versions,
  read: (key) => bytesOf(objects, key),
  put: async (key, bytes) => void (await objects.put(key, bytes)),
  remove: objects.delete,
  removeVersion: objects.deleteVersion,
})
