// Presigned S3 addresses, written from the specification of Signature Version 4.
import { createHash, createHmac } from 'node:crypto'

export interface S3Credentials {
  accessKeyId: string
  secretAccessKey: string
  sessionToken: string
}

/** The path of `url` is signed and sent as it is: it may have dot segments. */
export function presigned(
  url: string,
  credentials: S3Credentials,
  {
    method = 'GET',
    parameters = {},
    date,
    expires,
  }: { method?: string; parameters?: Record<string, string>; date: Date; expires: number },
) {
  const [, host = '', path = ''] = /^https?:\/\/([^/]+)(.*)$/s.exec(url) ?? []
  const at = date.toISOString().replace(/[-:]|\.\d+/g, '')
  const scope = `${at.slice(0, 8)}/us-east-1/s3/aws4_request`
  const query = Object.entries({
    ...parameters,
    'X-Amz-Algorithm': 'AWS4-HMAC-SHA256',
    'X-Amz-Credential': `${credentials.accessKeyId}/${scope}`,
    'X-Amz-Date': at,
    'X-Amz-Expires': String(expires),
    'X-Amz-Security-Token': credentials.sessionToken,
    'X-Amz-SignedHeaders': 'host',
  })
    .map((pair) => pair.map(encodeURIComponent).join('='))
    .sort()
    .join('&')
  const canonical = [method, path, query, `host:${host}\n`, 'host', 'UNSIGNED-PAYLOAD'].join('\n')
  const hash = createHash('sha256').update(canonical).digest('hex')
  const sign = (key: string | Buffer, text: string) => createHmac('sha256', key).update(text).digest()
  const key = scope.split('/').reduce<string | Buffer>(sign, `AWS4${credentials.secretAccessKey}`)
  const signature = sign(key, ['AWS4-HMAC-SHA256', at, scope, hash].join('\n')).toString('hex')
  return `${url}?${query}&X-Amz-Signature=${signature}`
}
