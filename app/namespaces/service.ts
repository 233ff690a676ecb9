import type { Db, Tx } from '../../drizzle/client.ts'
import { assignUnowned, deleteGrantsOf } from '../access/service.ts'
import { EVERYTHING, type Visible } from '../core/access.ts'
import { alreadyExists, forbidden, invalid, notFound } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import { DEFAULT_NAMESPACE } from '../core/names.ts'
import type { Page } from '../core/pagination.ts'
import type { CreateNamespace, Namespace, UpdateNamespace } from './schema.ts'
import {
  describeNamespace,
  detailsOf,
  findNamespace,
  hasContents,
  insertNamespace,
  isNamespace,
  lockedDetails,
  type NamespaceRef,
  namespaceCount,
  namespacesOn,
  type Properties,
  removeNamespace,
  setDetails,
} from './store.ts'

export type { NamespaceRef, Properties } from './store.ts'

/** Properties of a namespace. */
const PROPERTIES_MAX = 1_000
/** The property that is the description. */
const COMMENT = 'comment'

export type NamespaceService = ReturnType<typeof makeNamespaceService>

export const makeNamespaceService = ({ db }: { db: Db }) => ({
  /** Lists the namespaces that the caller sees. */
  async list(page: Page, visible = EVERYTHING) {
    const visibleNames = visibleTo(visible)
    const [namespaces, total] = await Promise.all([
      namespacesOn(db, page, visibleNames),
      namespaceCount(db, visibleNames),
    ])
    return { namespaces, total }
  },

  async get(name: string, visible = EVERYTHING): Promise<Namespace> {
    const names = visibleTo(visible)
    const found = names === 'all' || names.includes(name) ? await findNamespace(db, name) : null
    if (found === null) throw notFound(`namespace ${name}`)
    return found
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
    if (!(await db.transaction((tx) => removeIn(tx, ref)))) throw notFound(`namespace ${ref.name}`)
  },

  /** Deletes a namespace without contents. Returns false for a namespace with contents. */
  removeEmpty: (ref: NamespaceRef): Promise<boolean> =>
    db.transaction(async (tx) => {
      if (await hasContents(tx, ref.name)) return false
      if (!(await removeIn(tx, ref))) throw notFound(`namespace ${ref.name}`)
      return true
    }),

  /** Creates a namespace with properties of an engine. */
  async createWith(name: string, properties: Properties, owner: string | null) {
    const details = detailsFrom(properties)
    const created = await insertNamespace(db, { name, ...details }, owner)
    if (created === null) throw alreadyExists(`namespace ${name}`)
  },

  /** The properties as engines see them; none for a deleted namespace that still has tables. */
  async propertiesOf(name: string): Promise<Properties> {
    const details = await detailsOf(db, name)
    return details === null ? {} : propertiesIn(details)
  },

  /** Removes properties, sets others, and returns the properties from before. */
  changeProperties: (
    ref: NamespaceRef,
    { removals, updates }: { removals: readonly string[]; updates: Properties },
  ): Promise<Properties> =>
    db.transaction(async (tx) => {
      const details = await lockedDetails(tx, ref)
      if (details === null) throw notFound(`namespace ${ref.name}`)
      const before = propertiesIn(details)
      const kept = Object.entries(before).filter(([name]) => !removals.includes(name))
      await setDetails(tx, ref.name, detailsFrom({ ...Object.fromEntries(kept), ...updates }))
      return before
    }),

  /** For slices that create resources in a namespace: throws 400 with the field name when the namespace does not exist. */
  async requireExisting(name: string) {
    if (!(await isNamespace(db, name))) throw invalid('namespace', `${name} does not exist`)
  },
})

/** Every caller sees `default`, where every user may create resources. */
const visibleTo = ({ namespaces }: Visible) =>
  namespaces === 'all' ? namespaces : [...namespaces, DEFAULT_NAMESPACE]

/** Returns false when the namespace does not exist. */
async function removeIn(tx: Tx, ref: NamespaceRef): Promise<boolean> {
  const { name } = ref
  if (name === DEFAULT_NAMESPACE) throw forbidden(`namespace ${DEFAULT_NAMESPACE} cannot be deleted`)
  const removed = await removeNamespace(tx, ref)
  if (removed === null) return false
  const { id, owner } = removed
  await deleteGrantsOf(tx, { type: 'namespace', id })
  if (owner !== null) await assignUnowned(tx, name, owner)
  return true
}

type Details = { description: string; properties: Properties }

const propertiesIn = ({ description, properties }: Details): Properties =>
  description === '' ? properties : { ...properties, [COMMENT]: description }

function detailsFrom({ [COMMENT]: description = '', ...properties }: Properties): Details {
  if (description.length > limits.textCharacters)
    throw invalid(COMMENT, `its length must be at most ${limits.textCharacters}`)
  if (Object.keys(properties).length > PROPERTIES_MAX)
    throw invalid('properties', `at most ${PROPERTIES_MAX} are allowed`)
  return { description, properties }
}

/** The limit is not in the schema, because the first release's API document has none (docs/adr/0021-api-compatibility.md). */
function requireShort(description = '') {
  if (description.length > limits.textCharacters)
    throw invalid('description', `its length must be at most ${limits.textCharacters}`)
}
