// Settings of the real S3 server that `npm run test:interop` starts (tools/service/s3-server.ts).

function required(name: string): string {
  const value = process.env[name]
  if (!value) throw new Error(`${name} is not set: this suite needs an S3 server with versioning`)
  return value
}

export const s3Settings = {
  kind: 's3' as const,
  endpoint: required('S3_ENDPOINT'),
  bucket: required('S3_BUCKET'),
  region: required('S3_REGION'),
  credentials: {
    accessKeyId: required('S3_ACCESS_KEY_ID'),
    secretAccessKey: required('S3_SECRET_ACCESS_KEY'),
  },
}
