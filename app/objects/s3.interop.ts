import { openObjectStore } from './open.ts'
import { objectStoreSuite } from './suite.ts'

// Needs a real server, so `npm run test:interop` runs it (.setup/s3-server.ts starts one), not plain `bun test`.

function required(name: string): string {
  const value = process.env[name]
  if (!value) throw new Error(`${name} is not set: this suite needs an S3 server with versioning`)
  return value
}

objectStoreSuite(
  'S3 object store',
  () =>
    openObjectStore({
      kind: 's3',
      endpoint: required('S3_ENDPOINT'),
      bucket: required('S3_BUCKET'),
      region: required('S3_REGION'),
      accessKeyId: required('S3_ACCESS_KEY_ID'),
      secretAccessKey: required('S3_SECRET_ACCESS_KEY'),
    }),
  // The server of the interop suite keeps keys as paths; on one that does not, set this.
  { keysMayBeFolders: process.env.S3_KEYS_MAY_BE_FOLDERS === 'true', histories: 15 },
)
