/**
 * Namespaces for users of Iceberg REST. They are the namespaces of Sluice, with the same rights, and belong to no branch. Each
 * namespace has all layers, so a request that names a layer acts on the namespace of the layer.
 */

import { Value } from '@sinclair/typebox/value'
import { LAYERS, layerOf } from '../../ground/names.ts'
import { parseCreateNamespace, parseUpdateProperties } from '../../lake/iceberg/format/wire-catalog.ts'
import { checkNewNamespace } from '../access/service.ts'
import type { Permission } from '../core/access.ts'
import { AppError } from '../core/errors.ts'
import { NamespaceName } from '../core/names.ts'
import { exchangeOf } from '../http/exchange.ts'
import type { NamespaceRef, NamespaceService, Properties } from '../namespaces/service.ts'
import {
  badRequest,
  forbidden,
  namespaceExists,
  namespaceNotEmpty,
  noSuchNamespace,
  unprocessable,
} from './errors.ts'
import { makeNamespaces, twoLevels } from './namespaces.ts'
import type { UserWriting, UserWritingDeps, WriteRequest, Writing } from './user-writing.ts'

interface UserNamespaceDeps extends Pick<UserWritingDeps, 'sql' | 'resources'> {
  namespaces: NamespaceService
  writing: UserWriting['writing']
  changeOnce: UserWriting['changeOnce']
}

export function makeUserNamespaces({ sql, namespaces, resources, writing, changeOnce }: UserNamespaceDeps) {
  const { checkNamespace } = makeNamespaces({ sql })

  /** The namespace, if the caller has this right on it. Throws 404 for one that the caller does not see, and 403. */
  async function permitted(
    { request, session }: Writing,
    levels: readonly string[],
    permission: Permission,
  ): Promise<NamespaceRef> {
    await checkNamespace(session, levels)
    const [name = ''] = twoLevels(levels)
    const { access } = exchangeOf(request)
    if (resources === undefined || access.isAdmin) return { name }
    const found = await resources.namespace(name)
    if (found === null) throw noSuchNamespace(levels)
    if (!(await access.may(found, permission)))
      throw forbidden(`${permission} permission on namespace ${name} required: ask its owner`)
    return { name, boundTo: found.id }
  }

  return {
    async create(write: WriteRequest): Promise<{ namespace: string[]; properties: Properties }> {
      const { namespace, properties = {} } = parseCreateNamespace(write.body)
      const name = newName(namespace)
      const by = await writing(write)
      const { access } = exchangeOf(by.request)
      return changeOnce(by, write.body, async () => {
        try {
          if (resources !== undefined && !access.isAdmin) await checkNewNamespace(name, resources)
          await namespaces.createWith(name, properties, access)
        } catch (error) {
          throw isError(error, 409) ? namespaceExists([name]) : error
        }
        return { namespace, properties }
      })
    },

    async drop(write: WriteRequest, levels: readonly string[]): Promise<void> {
      const by = await writing(write)
      await changeOnce(by, write.body, async () => {
        const ref = await permitted(by, levels, 'admin')
        const isRemoved = await namespaces.removeEmpty(ref).catch(missing(levels))
        if (!isRemoved) throw namespaceNotEmpty(ref.name)
        return {}
      })
    },

    async changeProperties(write: WriteRequest, levels: readonly string[]) {
      const { removals, updates } = parseUpdateProperties(write.body)
      const both = removals.filter((name) => Object.hasOwn(updates, name))
      if (both.length > 0)
        throw unprocessable(`removals and updates: both have ${both.map((name) => JSON.stringify(name))}`)
      const by = await writing(write)
      return changeOnce(by, write.body, async () => {
        const ref = await permitted(by, levels, 'write')
        const before = await namespaces.changeProperties(ref, { removals, updates }).catch(missing(levels))
        const isThere = (name: string) => Object.hasOwn(before, name)
        return {
          updated: Object.keys(updates),
          removed: removals.filter(isThere),
          missing: removals.filter((name) => !isThere(name)),
        }
      })
    },
  }
}

/** The name of the namespace that a request creates. Throws 400 for a name that no namespace can have. */
function newName(levels: readonly string[]): string {
  const [name = '', layer, ...rest] = twoLevels(levels)
  if (rest.length > 0 || (layer !== undefined && layerOf(layer) === undefined))
    throw badRequest(
      `namespace: ${JSON.stringify(levels)} must be a name, or a name and one of the layers ${LAYERS.join(', ')}`,
    )
  if (!Value.Check(NamespaceName, name))
    throw badRequest(`namespace: ${JSON.stringify(name)} must have ${NamespaceName.description}`)
  return name
}

const isError = (error: unknown, status: number) => error instanceof AppError && error.status === status

const missing = (levels: readonly string[]) => (error: unknown) => {
  throw isError(error, 404) ? noSuchNamespace(levels) : error
}
