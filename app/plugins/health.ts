import type { Clock } from '../core/clock.ts'
import type { ReadinessChecks } from '../health/service.ts'
import type { Channel, PluginKind } from './channel.ts'

/** How long the health of a plugin is cached. */
const HEALTH_CACHE_MS = 5_000

/** The health and version that a plugin reports. */
interface PluginHealth {
  status: 'healthy' | 'unhealthy'
  /** Empty while unknown, and when the plugin reports none. */
  version: string
}

export interface PluginsHealth {
  /** Readiness checks of the configured plugins. */
  checks: Pick<ReadinessChecks, 'auth_plugin' | 'sharing_plugin' | 'enforcement_plugin'>
  /** The health as of the last seconds; older results are checked again. */
  describe(): Promise<Partial<Record<PluginKind, PluginHealth>>>
}

export function makePluginsHealth(
  channels: Partial<Record<PluginKind, Channel>>,
  clock: Clock,
): PluginsHealth {
  const configured = (['auth', 'sharing', 'enforcement'] as const).flatMap((kind) => {
    const channel = channels[kind]
    return channel === undefined ? [] : [{ kind, channel }]
  })
  let described: ReturnType<PluginsHealth['describe']> | null = null
  let describedMs = Number.NEGATIVE_INFINITY

  async function describe() {
    const found = configured.map(async ({ kind, channel }) => [kind, await healthOf(channel)] as const)
    return Object.fromEntries(await Promise.all(found))
  }

  return {
    checks: Object.fromEntries(configured.map(({ kind, channel }) => [`${kind}_plugin`, channel.check])),
    describe() {
      if (described === null || clock.elapsed() - describedMs > HEALTH_CACHE_MS) {
        describedMs = clock.elapsed()
        described = describe()
      }
      return described
    },
  }
}

const healthOf = (channel: Channel): Promise<PluginHealth> =>
  channel.check().then(
    (version) => ({ status: 'healthy', version }),
    () => ({ status: 'unhealthy', version: '' }),
  )
