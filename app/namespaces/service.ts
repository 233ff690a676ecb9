import type { Db, Tx } from '../../drizzle/client.ts'
import type { Protection, Review } from '../../drizzle/schema/namespace.ts'
import { DEFAULT_NAMESPACE } from '../../ground/names.ts'
import { assignUnowned, deleteGrantsOf } from '../access/service.ts'
import { type Access, EVERYTHING, UNLIMITED, type Visible } from '../core/access.ts'
import { alreadyExists, forbidden, invalid, notFound } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import type { Page } from '../core/pagination.ts'
import { requireRoom, type SharedLimit, sharerOf } from '../core/shares.ts'
import { isReplaceable } from '../protection/rule.ts'
import type { CreateNamespace, Namespace, UpdateNamespace } from './schema.ts'
import {
  countNamespaces,
  detailsOf,
  findNamespace,
  hasContents,
  insertNamespace,
  isNamespace,
  lockedNamespace,
  type NamespaceRef,
  type NamespaceRow,
  namespaceCount,
  namespacesOn,
  type Properties,
  removeNamespace,
  setDetails,
} from './store.ts'

export type { NamespaceRef, Properties } from './store.ts'

/** Lists return no more namespaces than this. */
const NAMESPACES: SharedLimit = { limit: limits.listCap, things: 'namespaces', remedy: 'delete one' }
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

  async create(request: CreateNamespace, by: Creator = UNLIMITED) {
    requireShort(request.description)
    const created = await insertWithin(db, request, by)
    if (created === null) throw alreadyExists(`namespace ${request.name}`)
    return created
  },

  async update(ref: NamespaceRef, { description, protection }: UpdateNamespace, by: Access = UNLIMITED) {
    if (description === undefined && protection === undefined) throw invalid('description', 'is required')
    requireShort(description)
    const proposed = await db.transaction(async (tx) => {
      const found = await lockedNamespace(tx, ref)
      if (found === null) throw notFound(`namespace ${ref.name}`)
      const next =
        protection === undefined ? found.protection : await protectionAfter(found, protection.review, by)
      const isProposal = protection !== undefined && protection.review !== next.review
      await setDetails(tx, ref.name, {
        protection: next,
        ...(description !== undefined && !isProposal && { description }),
      })
      return isProposal ? next.proposed : undefined
    })
    if (proposed !== undefined)
      throw forbidden(
        `protection.review: four-eyes is lowered to ${proposed.review} when another administrator of the namespace sends the same request: the one of ${proposed.by} is stored`,
      )
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
  async createWith(name: string, properties: Properties, by: Creator) {
    const details = detailsFrom(properties)
    const created = await insertWithin(db, { name, ...details }, by)
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
      const details = await lockedNamespace(tx, ref)
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

  /** Whether files may be stored below a namespace: it exists, or it was deleted and its contents remain. */
  takesFiles: async (name: string): Promise<boolean> =>
    (await isNamespace(db, name)) || (await hasContents(db, name)),
})

/** The caller who creates a namespace, and owns it. */
type Creator = Pick<Access, 'owner' | 'isAdmin'>

/** Inserts a namespace within the limits of all users and of its creator. Null: the name is taken. */
const insertWithin = (db: Db, namespace: Parameters<typeof insertNamespace>[1], by: Creator) =>
  db.transaction(async (tx) => {
    const sharer = sharerOf(by)
    requireRoom(NAMESPACES, await countNamespaces(tx, sharer), sharer)
    return insertNamespace(tx, namespace, by.owner)
  })

/** Every caller sees `default`, where every user may create resources. */
const visibleTo = ({ namespaces }: Visible) =>
  namespaces === 'all' ? namespaces : [...namespaces, DEFAULT_NAMESPACE]

/** Returns false when the namespace does not exist. */
async function removeIn(tx: Tx, ref: NamespaceRef): Promise<boolean> {
  const { name } = ref
  if (name === DEFAULT_NAMESPACE) throw forbidden(`namespace ${DEFAULT_NAMESPACE} cannot be deleted`)
  const found = await lockedNamespace(tx, ref)
  if (found?.protection.review === 'four-eyes')
    throw forbidden(
      `namespace ${name} is protected by review: four-eyes: lower protection.review first, which needs two administrators`,
    )
  const removed = await removeNamespace(tx, ref)
  if (removed === null) return false
  const { id, owner } = removed
  await deleteGrantsOf(tx, { type: 'namespace', id })
  if (owner !== null) await assignUnowned(tx, name, owner)
  return true
}

/**
 * The protection after an administrator asked for a rule. The first administrator is the author of a lower rule than four eyes,
 * and the second one decides. Throws 403 for other callers, who may send the present rule.
 */
async function protectionAfter(
  { id, name, owner, protection }: NamespaceRow,
  wanted: Review,
  by: Access,
): Promise<Protection> {
  const { review, proposed } = protection
  if (!(await by.may({ type: 'namespace', id, namespace: name, owner }, 'admin'))) {
    if (wanted === review) return protection
    throw forbidden('admin permission on the namespace required to change its protection: ask its owner')
  }
  if (wanted === 'four-eyes' && wanted !== review && by.person === null)
    throw invalid(
      'protection.review',
      'four-eyes needs callers that can be told apart, which only the Pro edition has: use any',
    )
  const authors = proposed?.review === wanted ? [proposed.by] : []
  if (by.person === null || isReplaceable(review, wanted, { authors, by: by.person }))
    return { review: wanted }
  return { review, proposed: { review: wanted, by: by.person } }
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

/** The limit is not in the schema, because the first release's API document has none (docs/adr/0068-oasdiff.md). */
function requireShort(description = '') {
  if (description.length > limits.textCharacters)
    throw invalid('description', `its length must be at most ${limits.textCharacters}`)
}
