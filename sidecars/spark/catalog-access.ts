import { traceHeaders } from '../../ground/telemetry/trace.ts'
import type { LakeAccess } from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { accepted, patiently } from '../rpc/http.ts'

/** Addresses and credentials with which an engine reaches the lake as the token of its work does. */
export interface CatalogAccess {
  /** The Iceberg REST catalog. */
  uri: string
  warehouse: string
  token: string
  /** The S3 endpoint. */
  endpoint: string
  region: string
  accessKeyId: string
  secretAccessKey: string
  sessionToken: string
}

/** Asks the API for the access of an engine. Throws HttpFailure. */
export async function catalogAccess(lake: LakeAccess, signal: AbortSignal): Promise<CatalogAccess> {
  const config = await patiently(
    async (deadline) => {
      const headers = { ...traceHeaders(), authorization: `Bearer ${lake.token}` }
      const url = `${lake.catalogUrl}/sluice/v1/credentials`
      const response = await fetch(url, { method: 'POST', headers, signal: deadline })
      return (await accepted(response, 'asking for credentials')).json() as Promise<Record<string, string>>
    },
    { signal },
  )
  const setting = (name: string) => {
    const value = config[name]
    if (value === undefined) throw new Error(`the API returned no ${name} for an engine`)
    return value
  }
  return {
    uri: setting('uri'),
    warehouse: lake.warehouse,
    token: lake.token,
    endpoint: setting('s3.endpoint'),
    region: setting('s3.region'),
    accessKeyId: setting('s3.access-key-id'),
    secretAccessKey: setting('s3.secret-access-key'),
    sessionToken: setting('s3.session-token'),
  }
}
