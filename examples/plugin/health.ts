import type { ConnectRouter } from '@connectrpc/connect'
import { PluginService, PluginStatus } from '../../proto/gen/sluice/plugin/v1/plugin_pb.ts'

const VERSION = '1.0.0'

export const healthService = (router: ConnectRouter) =>
  router.service(PluginService, {
    healthCheck: () => ({ status: PluginStatus.SERVING, version: VERSION }),
  })
