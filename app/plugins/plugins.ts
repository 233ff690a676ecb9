// The plugins that the configuration names.
import type { Sql } from '../../drizzle/client.ts'
import type { PluginSettings } from '../config/plugin-settings.ts'
import type { Enforcement, Sharing } from '../core/access.ts'
import { type AuthPlugin, makeAuthPlugin } from './auth.ts'
import { type ChannelDeps, makeChannel, type PluginKind } from './channel.ts'
import { makeEnforcementPlugin } from './enforcement.ts'
import { makePluginsHealth, type PluginsHealth } from './health.ts'
import { makeSharingPlugin, noSharing } from './sharing.ts'
import { makePluginResources } from './store.ts'

export interface Plugins {
  /** Null: an identity provider issues the tokens, and every authenticated caller may use all routes. */
  auth: AuthPlugin | null
  /** Returns the plugin, or `builtIn` without a plugin. */
  enforcementOr(builtIn: Enforcement): Enforcement
  sharingOr(builtIn: Sharing): Sharing
  checks: PluginsHealth['checks']
  describe: PluginsHealth['describe']
}

export function makePlugins(settings: PluginSettings, deps: ChannelDeps & { sql: Sql }): Plugins {
  const { token, admins } = settings
  const channelOf = (kind: PluginKind) => {
    const url = settings[kind]
    return url === null ? undefined : makeChannel({ kind, url, token }, deps)
  }
  const [auth, sharing, enforcement] = [channelOf('auth'), channelOf('sharing'), channelOf('enforcement')]
  const health = makePluginsHealth({ auth, sharing, enforcement }, deps.clock)

  return {
    auth: auth === undefined ? null : makeAuthPlugin({ channel: auth, clock: deps.clock, admins }),
    enforcementOr: (builtIn) =>
      enforcement === undefined
        ? builtIn
        : makeEnforcementPlugin({ channel: enforcement, things: makePluginResources(deps) }),
    sharingOr(builtIn) {
      if (sharing !== undefined) return makeSharingPlugin({ channel: sharing, owners: builtIn })
      return enforcement === undefined ? builtIn : noSharing
    },
    ...health,
  }
}
