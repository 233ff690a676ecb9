// A minimal S3 server in the test's memory. A test can make it fail or hold its reads.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

interface Version {
  id: string
  /** Null marks a deleted key. */
  content: Buffer | null
  at: Date
}

export interface TestStore {
  /** Variables that make a service use this store. */
  env: Record<string, string>
  /** While `isFailing`, every request for an object is refused with a server error. */
  fail(isFailing: boolean): void
  /** Makes reads of objects wait. */
  hold(): HeldReads
  stop(): Promise<void>
}

interface HeldReads {
  /** Number of reads that wait now. */
  waiting(): number
  /** Largest number of reads that waited at once. */
  most(): number
  /** Releases the read that has waited longest. */
  releaseOne(): void
  /** Releases all reads; later reads do not wait. */
  release(): void
}

const BUCKET = 'tests'

export async function startTestStore(): Promise<TestStore> {
  const objects = new Map<string, Version[]>()
  let isFailing = false
  let queue: (() => void)[] | null = null
  let most = 0
  let lastVersion = 0

  async function answer(request: IncomingMessage, response: ServerResponse) {
    const url = new URL(request.url ?? '/', 'http://store')
    const key = decodeURIComponent(url.pathname).slice(`/${BUCKET}/`.length)
    const content = await contentOf(request)
    if (key === '') return aboutBucket(request, url, content, response)
    if (isFailing) return send(response, 500, error('InternalError'))
    const versions = objects.get(key) ?? []
    const wantedVersion = url.searchParams.get('versionId')
    switch (request.method) {
      case 'PUT': {
        const version = { id: String(++lastVersion), content, at: new Date() }
        objects.set(key, [version, ...versions])
        return send(response, 200, '', { 'x-amz-version-id': version.id, etag: `"${version.id}"` })
      }
      case 'GET':
      case 'HEAD': {
        if (request.method === 'GET') await inQueue()
        const found = wantedVersion === null ? versions[0] : versions.find(({ id }) => id === wantedVersion)
        if (found?.content == null) return send(response, 404, error('NoSuchKey'))
        return send(response, 200, request.method === 'HEAD' ? '' : found.content, {
          'x-amz-version-id': found.id,
          'last-modified': found.at.toUTCString(),
          'content-length': String(found.content.byteLength),
        })
      }
      case 'DELETE':
        if (wantedVersion === null)
          objects.set(key, [{ id: String(++lastVersion), content: null, at: new Date() }, ...versions])
        else
          objects.set(
            key,
            versions.filter(({ id }) => id !== wantedVersion),
          )
        return send(response, 204, '')
      default:
        return send(response, 405, error('MethodNotAllowed'))
    }
  }

  function aboutBucket({ method }: IncomingMessage, url: URL, content: Buffer, response: ServerResponse) {
    if (url.searchParams.has('versioning'))
      return send(
        response,
        200,
        '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>',
      )
    if (url.searchParams.has('versions')) return send(response, 200, listing(url.searchParams.get('prefix')))
    if (url.searchParams.has('delete')) {
      for (const [, key = ''] of content.toString().matchAll(/<Key>([^<]*)<\/Key>/g)) objects.delete(key)
      return send(response, 200, '<DeleteResult/>')
    }
    return send(response, method === 'HEAD' || method === 'PUT' ? 200 : 405, '')
  }

  function listing(prefix: string | null) {
    const keys = [...objects.keys()].filter((key) => key.startsWith(prefix ?? '')).sort()
    const entries = keys.flatMap((key) =>
      (objects.get(key) ?? []).map(({ id, content, at }, index) => {
        const common = `<Key>${key}</Key><VersionId>${id}</VersionId><IsLatest>${index === 0}</IsLatest><LastModified>${at.toISOString()}</LastModified>`
        return content === null
          ? `<DeleteMarker>${common}</DeleteMarker>`
          : `<Version>${common}<Size>${content.byteLength}</Size></Version>`
      }),
    )
    return `<ListVersionsResult><IsTruncated>false</IsTruncated>${entries.join('')}</ListVersionsResult>`
  }

  async function inQueue() {
    const waiting = queue
    if (waiting === null) return
    await new Promise<void>((goOn) => {
      waiting.push(goOn)
      most = Math.max(most, waiting.length)
    })
  }

  const server = createServer((request, response) => {
    answer(request, response).catch(() => response.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo

  return {
    env: {
      S3_ENDPOINT: `http://127.0.0.1:${port}`,
      S3_BUCKET: BUCKET,
      S3_REGION: 'us-east-1',
      S3_ACCESS_KEY_ID: 'test-key-id',
      S3_SECRET_ACCESS_KEY: 'test-secret',
    },
    fail(now) {
      isFailing = now
    },
    hold() {
      const held: (() => void)[] = []
      queue = held
      most = 0
      return {
        waiting: () => held.length,
        most: () => most,
        releaseOne: () => held.shift()?.(),
        release() {
          queue = null
          for (const goOn of held.splice(0)) goOn()
        },
      }
    },
    async stop() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

async function contentOf(request: IncomingMessage) {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk)
  return Buffer.concat(chunks)
}

const error = (code: string) => `<Error><Code>${code}</Code><Message>${code}</Message></Error>`

function send(
  response: ServerResponse,
  status: number,
  content: string | Buffer,
  headers: Record<string, string> = {},
) {
  response.writeHead(status, headers).end(content)
}
