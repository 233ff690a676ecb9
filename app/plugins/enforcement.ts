// Rights of users on single resources, decided by a plugin. A plugin may answer with owners and namespaces. The resources
// behind them are looked up here, because the plugin cannot know them.
import { EnforcementService, type Extent } from '../../proto/gen/sluice/enforcement/v1/enforcement_pb.ts'
import type { Enforcement, Resource } from '../core/access.ts'
import { isUuid } from '../core/ids.ts'
import type { Channel } from './channel.ts'
import { isAllowed, permissionMessage, typeMessage, Unusable, userMessage } from './messages.ts'
import type { ExtentFilter, PluginResources } from './store.ts'

interface EnforcementPluginDeps {
  channel: Channel
  things: PluginResources
}

export function makeEnforcementPlugin({ channel, things }: EnforcementPluginDeps): Enforcement {
  const plugin = channel.client(EnforcementService)

  async function resourceMessage({ type, id, namespace, owner }: Resource) {
    const space = await things.namespace(namespace)
    return {
      type: typeMessage(type),
      id,
      namespace,
      namespaceId: space?.id ?? '',
      ownerId: owner ?? undefined,
      namespaceOwnerId: space?.owner ?? undefined,
    }
  }

  return {
    async check(caller, resource, permission) {
      const question = {
        user: userMessage(caller),
        resource: await resourceMessage(resource),
        permission: permissionMessage(permission),
      }
      return channel.call(async (options) => isAllowed((await plugin.check(question, options)).decision))
    },
    async listVisible(caller) {
      const resourcesOf = (extent: Extent | undefined) => resourcesIn(extent, caller.userId)
      const [ofPipelines, ofZones, ofNamespaces] = await channel.call(async (options) => {
        const response = await plugin.listVisible({ user: userMessage(caller) }, options)
        return [
          resourcesOf(response.pipelines),
          resourcesOf(response.landingZones),
          resourcesOf(response.namespaces),
        ] as const
      })
      const [pipelines, zones, namespaces] = await Promise.all([
        ofPipelines === 'all' ? ofPipelines : things.pipelines(ofPipelines),
        ofZones === 'all' ? ofZones : things.zones(ofZones),
        ofNamespaces === 'all' ? ofNamespaces : things.namespaces(ofNamespaces),
      ])
      return { pipelines, zones, namespaces }
    },
  }
}

/** The rule for names of namespaces. */
const NAMESPACE = /^[a-z][a-z0-9-]{2,62}$/

function resourcesIn(extent: Extent | undefined, userId: string): 'all' | ExtentFilter {
  if (extent === undefined) throw new Unusable('the response lacks pipelines, landing zones or namespaces')
  const { all, owned, ids, namespaceIds, namespaceNames } = extent
  if (![...ids, ...namespaceIds].every(isUuid) || !namespaceNames.every((name) => NAMESPACE.test(name)))
    throw new Unusable('the response has an invalid id or namespace name')
  return all ? 'all' : { ownerId: owned ? userId : null, ids, namespaceIds, namespaceNames }
}
