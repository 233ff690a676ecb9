import type { DescService } from '@bufbuild/protobuf'
import { Code, ConnectError, type ConnectRouter, type ServiceImpl } from '@connectrpc/connect'
import type { Settings } from '../core/settings.ts'
import type { ServedServices } from './connect.ts'
import { serveRpc } from './rpc-server.ts'

// Serves a sidecar whose engine processes cannot be confined. It executes no code of users: every call is refused with the
// reason, and the health check answers NOT_SERVING with that reason.

/** Calls that start runs. RESOURCE_EXHAUSTED leaves a run in the queue, for another runner or a later try. */
const STARTS_RUNS = ['submitPipeline', 'submitPipelines']

export function serveRefusal(
  settings: Settings,
  { services, readMaxBytes }: Pick<ServedServices, 'services' | 'readMaxBytes'>,
  reason: string,
) {
  return serveRpc(settings, {
    services,
    readMaxBytes,
    register: (router) => {
      for (const service of services) refuseAll(router, service, reason)
    },
    isServing: () => false,
    refusal: reason,
  })
}

function refuseAll(router: ConnectRouter, service: DescService, reason: string): void {
  const refuse = (method: string): never => {
    throw new ConnectError(reason, STARTS_RUNS.includes(method) ? Code.ResourceExhausted : Code.Unavailable)
  }
  const methods = service.methods.map(({ localName, methodKind }) => [
    localName,
    methodKind === 'unary'
      ? async () => refuse(localName)
      : // biome-ignore lint/correctness/useYield: the stream ends before its first message
        async function* () {
          refuse(localName)
        },
  ])
  // The methods are known only at run time, so the compiler cannot check them.
  router.service(service, Object.fromEntries(methods) as ServiceImpl<DescService>)
}
