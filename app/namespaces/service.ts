import type { Db } from '../../drizzle/client.ts'
import { assignUnowned, deleteGrantsOf } from '../access/service.ts'
import { EVERYTHING } from '../core/access.ts'
import { alreadyExists, forbidden, invalid, notFound } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import { DEFAULT_NAMESPACE } from '../core/names.ts'
import type { Page } from '../core/pagination.ts'
import type { CreateNamespace, UpdateNamespace } from './schema.ts'
import {
  describeNamespace,
  insertNamespace,
  isNamespace,
  type NamespaceRef,
  namespaceCount,
  namespacesOn,
  removeNamespace,
} from './store.ts'

export type NamespaceService = ReturnType<typeof makeNamespaceService>

export const makeNamespaceService = ({ db }: { db: Db }) => ({
  /** Lists the namespaces that the caller sees. Every caller sees `default`, where every user may create resources. */
  async list(page: Page, { namespaces: visible } = EVERYTHING) {
    const visibleNames = visible === 'all' ? visible : [...visible, DEFAULT_NAMESPACE]
    const [namespaces, total] = await Promise.all([
      namespacesOn(db, page, visibleNames),
      namespaceCount(db, visibleNames),
    ])
    return { namespaces, total }
  },

  async create(request: CreateNamespace, owner: string | null = null) {
    requireShort(request.description)
    const created = await insertNamespace(db, request, owner)
    if (created === null) throw alreadyExists(`namespace ${request.name}`)
    return created
  },

  async update(ref: NamespaceRef, { description }: UpdateNamespace) {
    requireShort(description)
    if (!(await describeNamespace(db, { ...ref, description }))) throw notFound(`namespace ${ref.name}`)
  },

  /**
   * Deletes a namespace. Its contents remain and keep working. Its resources without an owner pass to the namespace's owner.
   */
  async remove(ref: NamespaceRef) {
    const { name } = ref
    if (name === DEFAULT_NAMESPACE) throw forbidden(`namespace ${DEFAULT_NAMESPACE} cannot be deleted`)
    const isRemoved = await db.transaction(async (tx) => {
      const removed = await removeNamespace(tx, ref)
      if (removed === null) return false
      const { id, owner } = removed
      await deleteGrantsOf(tx, { type: 'namespace', id })
      if (owner !== null) await assignUnowned(tx, name, owner)
      return true
    })
    if (!isRemoved) throw notFound(`namespace ${name}`)
  },

  /** For slices that create resources in a namespace: throws 400 with the field name when the namespace does not exist. */
  async requireExisting(name: string) {
    if (!(await isNamespace(db, name))) throw invalid('namespace', `${name} does not exist`)
  },
})

/** The limit is not in the schema, because the first release's API document has none (docs/adr/0021-api-compatibility.md). */
function requireShort(description = '') {
  if (description.length > limits.textCharacters)
    throw invalid('description', `its length must be at most ${limits.textCharacters}`)
}
