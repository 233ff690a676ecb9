// The API addresses that a sidecar may call. They come from the sidecar's configuration. A request only chooses among them.
import { hash } from 'node:crypto'
import { Code, ConnectError } from '@connectrpc/connect'

/** The fields that requests of all services share: LakeAccess and LakeView. */
interface LakeAddresses {
  catalogUrl: string
  objectsUrl: string
  token: string
  catalogId: string
}

export interface ApiAddresses {
  /** Whether the list contains this address, in any spelling. */
  includes(url: string): boolean
  /** Returns the access with the configured addresses. Throws ConnectError (PERMISSION_DENIED) for any other address. */
  checked<Lake extends LakeAddresses>(lake: Lake): Lake
}

/** @param urls base addresses of the API's replicas, each a valid http or https address. */
export function makeApiAddresses(urls: readonly string[]): ApiAddresses {
  const knownUrls = new Set(urls.map(normal))
  const accesses = new Map(
    [...knownUrls].map((base) => {
      const access = { catalogUrl: `${base}/catalog`, objectsUrl: `${base}/lake/objects` }
      return [keyOf(access), access]
    }),
  )
  return {
    includes: (url) => knownUrls.has(normal(url)),
    checked(lake) {
      const access = accesses.get(keyOf(lake))
      if (access === undefined) throw unknownApi()
      return { ...lake, ...access }
    },
  }
}

const keyOf = ({ catalogUrl, objectsUrl }: Pick<LakeAddresses, 'catalogUrl' | 'objectsUrl'>) =>
  `${normal(catalogUrl)} ${normal(objectsUrl)}`

/** The message does not contain the address, because people who run pipelines read the message. */
export const unknownApi = () =>
  new ConnectError(
    'unknown API address: add the PUBLIC_URL of the API to API_URLS of this sidecar',
    Code.PermissionDenied,
  )

/** Normalizes an address for comparison. A text that is no address stays as it is. */
const normal = (url: string) => (URL.canParse(url) ? new URL(url).href : url).replace(/\/+$/, '')

/**
 * The authority for which answers of the catalog and the object gateway are cached. The secret `catalogId` proves that the
 * sender is an API of that catalog; then the authority is the whole catalog. Otherwise the authority is the token alone.
 */
export const authorityOf = ({ catalogUrl, token, catalogId }: Omit<LakeAddresses, 'objectsUrl'>): string =>
  catalogId === '' ? `token ${hash('sha256', `${catalogUrl} ${token}`)}` : `catalog ${catalogId}`
