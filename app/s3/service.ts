import type { Sql } from '../../drizzle/client.ts'
import type { Config } from '../config/config.ts'
import type { Clock } from '../core/clock.ts'
import type { NewId } from '../core/ids.ts'
import type { Log } from '../core/log.ts'
import type { ObjectStore } from '../objects/port.ts'
import { makeFailures } from '../wire/rate-limit.ts'
import { endpointOf, makeS3Authenticate } from './authenticate.ts'
import type { CredentialIssuer, TableGrant } from './credentials.ts'
import { type FileDeps, makeLakeFiles } from './files.ts'
import { makeLakeWrites, type WriteDeps } from './writes.ts'

type S3Config = Pick<Config, 'apiKeys' | 'authFailures' | 'oidc' | 'plugins' | 'shownUrl'>

interface S3Deps {
  config: S3Config
  sql: Sql
  objects: ObjectStore
  /** The name of the only bucket. */
  bucket: string
  credentials: CredentialIssuer
  works: FileDeps['works']
  maySee: FileDeps['maySee']
  mayUse: FileDeps['mayUse']
  mayWrite: WriteDeps['mayWrite']
  takesFiles: WriteDeps['takesFiles']
  clock: Clock
  newId: NewId
  log: Log
}

export type S3Service = ReturnType<typeof makeS3Service>

/** The S3 endpoint: reads, writes, and the check of signatures. */
export function makeS3Service(deps: S3Deps) {
  const { config, objects, bucket, credentials, clock, log } = deps
  return {
    objects,
    bucket,
    log,
    files: makeLakeFiles(deps),
    writes: makeLakeWrites(deps),
    /** The request at the endpoint, if its address begins with the bucket. */
    endpointOf: (request: Request) => endpointOf(request, bucket),
    authenticate: makeS3Authenticate({
      credentials,
      clock,
      shownUrl: config.shownUrl,
      failures: makeFailures(config, clock),
      admits: admitsOf(config),
    }),
  }
}

/** Credentials end with the way in which their caller authenticated: a removed key, or an API that is no longer open. */
function admitsOf({ apiKeys, oidc, plugins }: S3Config) {
  const hasUsers = oidc !== null || plugins.auth !== null
  return ({ kind, name }: TableGrant['principal']): boolean => {
    switch (kind) {
      case 'anonymous':
        return apiKeys.length === 0 && !hasUsers
      case 'api-key':
        return apiKeys.some((key) => key.name === name)
      case 'user':
        return hasUsers
      case 'work':
        return false
    }
  }
}
