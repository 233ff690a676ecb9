// The addresses of the API that a sidecar may call. They come from its configuration; a request only chooses among them.
import { hash } from 'node:crypto'
import { Code, ConnectError } from '@connectrpc/connect'

/** The fields that requests of all services have in common: LakeAccess and LakeView. */
export interface LakeAddresses {
  catalogUrl: string
  objectsUrl: string
  token: string
  catalogId: string
}

export interface ApiAddresses {
  /** Whether this is one of the addresses, however it is written. */
  includes(url: string): boolean
  /** The same access with the configured addresses. Throws ConnectError (PERMISSION_DENIED) for any other address. */
  checked<Lake extends LakeAddresses>(lake: Lake): Lake
}

/** @param urls base addresses of the API's replicas, each a valid http or https address. */
export function makeApiAddresses(urls: readonly string[]): ApiAddresses {
  const known = new Set(urls.map(normal))
  const accesses = new Map(
    [...known].map((base) => {
      const access = { catalogUrl: `${base}/catalog`, objectsUrl: `${base}/lake/objects` }
      return [keyOf(access), access]
    }),
  )
  return {
    includes: (url) => known.has(normal(url)),
    checked(lake) {
      const access = accesses.get(keyOf(lake))
      if (access === undefined) throw unknownApi()
      return { ...lake, ...access }
    },
  }
}

const keyOf = ({ catalogUrl, objectsUrl }: Pick<LakeAddresses, 'catalogUrl' | 'objectsUrl'>) =>
  `${normal(catalogUrl)} ${normal(objectsUrl)}`

/** The address itself stays out of the message, which reaches people who run pipelines. */
export const unknownApi = () =>
  new ConnectError(
    'unknown API address: add the PUBLIC_URL of the API to API_URLS of this sidecar',
    Code.PermissionDenied,
  )

/** The form in which addresses are compared; a text that is no address is compared as it is. */
const normal = (url: string) => (URL.canParse(url) ? new URL(url).href : url).replace(/\/+$/, '')

/**
 * On whose authority an answer of the catalog or the object gateway is cached: that of the catalog as a whole, where the request
 * proves by the secret `catalogId` that its sender is an API of that catalog; else that of its token alone.
 */
export const authorityOf = ({ catalogUrl, token, catalogId }: Omit<LakeAddresses, 'objectsUrl'>): string =>
  catalogId === '' ? `token ${hash('sha256', `${catalogUrl} ${token}`)}` : `catalog ${catalogId}`
