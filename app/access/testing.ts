// The Pro edition over HTTP, for tests of resources and rights. A token is the name of its user. `root` is an administrator,
// and `key` calls with an API key.
import { expect } from 'bun:test'
import type { User } from '../auth/access-tokens.ts'
import { requestTo, testApp } from '../composition/test-app.ts'
import { systemClock } from '../core/clock.ts'
import { unavailable } from '../core/errors.ts'
import { fileRoutes } from '../files/routes.ts'
import { makeFileService } from '../files/service.ts'
import { makeDetection } from '../landing-zones/detection.ts'
import { landingZoneRoutes } from '../landing-zones/routes.ts'
import { makeLandingZoneService } from '../landing-zones/service.ts'
import { namespaceRoutes } from '../namespaces/routes.ts'
import { pipelineRoutes, versionRoutes } from '../pipelines/routes.ts'
import { openParts } from '../pipelines/test-parts.ts'
import type { QueryService } from '../query/service.ts'
import { sharingRoutes } from '../sharing/routes.ts'
import { makeSharingService } from '../sharing/service.ts'
import { tableRoutes } from '../tables/routes.ts'
import { makeTableService } from '../tables/service.ts'
import { makeLakeReader } from '../versions/lake-reader.ts'
import { makeMetadataFiles } from '../versions/metadata-files.ts'
import { fileWriting } from './guard.ts'
import { makeEnforcement, makeResources, makeSharing } from './service.ts'

const KEY = 'a-key-of-a-machine'
export const identityOf = (name: string): User => ({
  kind: 'user',
  userId: name,
  name,
  roles: name === 'root' ? ['admin'] : [],
})

export async function openPro() {
  const parts = await openParts()
  const { sql, objects, deps } = parts
  const enforcement = makeEnforcement({ sql })
  const resources = makeResources({ sql, objects })
  const sharing = makeSharingService({ resources, sharing: makeSharing({ db: parts.db, newId: deps.newId }) })
  const app = testApp({
    config: { edition: 'pro', apiKey: KEY },
    plugins: {
      auth: { tokens: { verify: identityOf }, authorize: () => true },
      describe: async () => ({}),
    },
    ownership: { resources, enforcement },
    api: [
      namespaceRoutes(parts.namespaces),
      pipelineRoutes(parts.pipelines()),
      versionRoutes(parts.pipelines()),
      landingZoneRoutes(
        makeLandingZoneService({ ...deps, clock: systemClock }),
        makeDetection({ ...deps, previewZone: () => Promise.reject(unavailable('runner')) }),
      ),
      fileRoutes(
        makeFileService({
          sql,
          objects,
          takesFiles: parts.namespaces.takesFiles,
          fileWritten: async () => {},
        }),
        fileWriting(resources),
      ),
      tableRoutes(
        makeTableService({
          sql,
          objects,
          lake: { files: makeMetadataFiles({ objects, newId: deps.newId }), reader: makeLakeReader(objects) },
          queries: { requireAvailable: async () => {} } as QueryService,
          metadataStore: true,
        }),
      ),
      sharingRoutes(sharing),
    ],
  })

  async function call(user: string, method: string, path: string, body?: object) {
    const credential: Record<string, string> =
      user === 'key' ? { 'x-api-key': KEY } : { authorization: `Bearer ${user}` }
    const response = await requestTo(app, method, `/api/v1${path}`, body, credential)
    const text = await response.text()
    return { status: response.status, body: text === '' ? null : JSON.parse(text) }
  }

  let namesCreated = 0
  const freshName = (prefix: string) => `${prefix}${++namesCreated}`

  return {
    parts,
    enforcement,
    call,
    freshName,
    statusOf: async (...asked: Parameters<typeof call>) => (await call(...asked)).status,
    async newPipeline(owner: string, namespace = 'default') {
      const name = freshName('p')
      const { status, body } = await call(owner, 'POST', '/pipelines', { namespace, layer: 'silver', name })
      expect([status, body]).toEqual([
        201,
        expect.objectContaining({ owner: owner === 'key' ? null : owner }),
      ])
      return { id: String(body.id), name, path: `/pipelines/${namespace}/silver/${name}` }
    },
    async newNamespace(owner: string) {
      const name = freshName('space-')
      const { body } = await call(owner, 'POST', '/namespaces', { name })
      expect(body).toMatchObject({ name, owner })
      return { name, id: String(body.id), type: 'namespace' }
    },
    share: (by: string, to: string, resource: { type?: string; id: string }, permission = 'read') =>
      call(by, 'POST', '/sharing', {
        grantee_id: to,
        resource_type: resource.type ?? 'pipeline',
        resource_id: resource.id,
        permission,
      }),
    close: () => parts.close(),
  }
}
