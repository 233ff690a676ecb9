// Appends of one data file through the Iceberg REST catalog and the S3 endpoint, as an engine makes them.
import { parseJson, stringifyJson } from '../lake/iceberg/format/json.ts'
import { dataLocation } from '../lake/iceberg/format/location.ts'
import { metadataFrom } from '../lake/iceberg/format/metadata.ts'
import { dataFilesOf, makeManifestReader } from '../lake/iceberg/read/scan.ts'
import { planCommit } from '../lake/iceberg/write/write.ts'

export interface Append {
  /** From the first request to the answer. */
  ms: number
  /** Only the request that commits. */
  requestMs: number
  /** The sizes of the new data file, of the manifest, of the manifest list and of the table's metadata. */
  sizes: number[]
}

/** Appends to a table of `default.gold` on a branch. The new file has the rows of the table's first file. */
export async function appendByRest(url: string, branch: string, table: string): Promise<Append> {
  const rest = async (method: string, path: string, body?: object): Promise<Answer> => {
    const answer = await fetch(`${url}/iceberg/v1${path}`, {
      method,
      headers: { 'content-type': 'application/json', 'x-iceberg-access-delegation': 'vended-credentials' },
      ...(body && { body: stringifyJson(body) }),
    })
    const text = await answer.text()
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`)
    return parseJson(text) as Answer
  }
  const { prefix } = (await rest('GET', `/config?warehouse=sluice@${branch}`)).overrides
  const path = `/${prefix}/namespaces/default%1Fgold/tables/${table}`
  const loaded = await rest('GET', path)
  const metadata = metadataFrom(loaded.metadata)
  const s3 = filesOf(metadata.location, loaded.config)
  const reader = makeManifestReader(s3.read)
  const [first] = await dataFilesOf(metadata, metadata['current-snapshot-id'] ?? 0n, reader)
  if (first === undefined) throw new Error(`table ${table} has no file`)
  const bytes = await s3.read(first.location)

  const since = performance.now()
  const { metadata: before } = await rest('GET', path)
  const location = dataLocation(metadata.location, crypto.randomUUID())
  await s3.write(location, bytes)
  const { partition, recordCount, sizeBytes, columns } = first
  const { objects, requirements, updates } = await planCommit({
    metadata: metadataFrom(before),
    isStaged: false,
    operation: 'append',
    files: [{ location, partition, recordCount, sizeBytes, columns }],
    at: Date.now(),
    uuid: crypto.randomUUID(),
    reader,
  })
  for (const object of objects) await s3.write(object.location, object.bytes)
  const committing = performance.now()
  const { metadata: after } = await rest('POST', path, { requirements, updates })
  const until = performance.now()
  return {
    ms: until - since,
    requestMs: until - committing,
    sizes: [
      bytes.length,
      ...objects.map((object) => object.bytes.length),
      Buffer.byteLength(stringifyJson(after)),
    ],
  }
}

interface Answer {
  overrides: { prefix: string }
  metadata: object
  config: Record<string, string>
}

/** The files of a table, by the credentials that came with the table. */
function filesOf(tableLocation: string, config: Record<string, string>) {
  const [, bucket = ''] = /^s3:\/\/([^/]+)\//.exec(tableLocation) ?? []
  const client = new Bun.S3Client({
    endpoint: config['s3.endpoint'] ?? '',
    region: config['s3.region'] ?? '',
    accessKeyId: config['s3.access-key-id'] ?? '',
    secretAccessKey: config['s3.secret-access-key'] ?? '',
    sessionToken: config['s3.session-token'] ?? '',
    bucket,
  })
  const keyOf = (location: string) => location.slice(`s3://${bucket}/`.length)
  return {
    read: (location: string) => client.file(keyOf(location)).bytes(),
    write: (location: string, bytes: Uint8Array) => client.write(keyOf(location), bytes),
  }
}
