// Decides which callers may use a sidecar. The decision needs only headers, and precedes reading anything else of a request.
import { isIP } from 'node:net'
import { Code, ConnectError } from '@connectrpc/connect'
import { errorToJsonBytes } from '@connectrpc/connect/protocol-connect'
import { makeTokenCheck } from '../../proto/sidecar-token.ts'

interface AdmissionOptions {
  token: string
  /** The address on which the servers listen. */
  host: string
  /** Further names by which clients reach the servers, without ports. */
  otherHosts: readonly string[]
}

/** The headers that decide about a call. HTTP/2 names the host in `:authority`, in `host`, or in both. */
interface CallHeaders {
  hosts: readonly (string | null | undefined)[]
  authorization: string | null | undefined
}

interface Refusal {
  /** 421: the Host is unknown. 401: the token is missing or wrong. */
  status: 401 | 421
  code: Code
  message: string
}

/** Returns null for an admitted call. */
export type Admit = (call: CallHeaders) => Refusal | null

/** Names by which every machine reaches itself. A page in a browser cannot resolve them to another address (DNS rebinding). */
const LOOPBACK_NAMES = ['localhost', '127.0.0.1', '[::1]']

const UNKNOWN_HOST: Refusal = {
  status: 421,
  code: Code.PermissionDenied,
  message: 'unknown Host: add its name to SIDECAR_HOSTS of this sidecar',
}
const WRONG_TOKEN: Refusal = {
  status: 401,
  code: Code.Unauthenticated,
  message: 'missing or wrong bearer token: set the SIDECAR_TOKEN of this sidecar',
}

export function makeAdmission({ token, host, otherHosts }: AdmissionOptions): Admit {
  const knownHosts = new Set([...LOOPBACK_NAMES, ...[host, ...otherHosts].map(asInHeader)])
  const isKnown = (host: string) => knownHosts.has(nameIn(host))
  const isTokenRight = makeTokenCheck(token)
  return ({ hosts, authorization }) => {
    const named = hosts.filter((name) => name != null)
    if (named.length === 0 || !named.every(isKnown)) return UNKNOWN_HOST
    return isTokenRight(authorization) ? null : WRONG_TOKEN
  }
}

/** Formats a name or address as the Host header does. */
const asInHeader = (host: string) => (isIP(host) === 6 ? `[${host}]` : host).toLowerCase()

/** Removes the port from a Host header. */
const nameIn = (header: string) => header.toLowerCase().replace(/:\d{1,5}$/, '')

/** Encodes a refusal in the protocol of the call: in headers for gRPC and gRPC-web, in a JSON body for Connect. */
export function answerOf(
  { status, code, message }: Refusal,
  contentType: string | null | undefined,
): { status: number; headers: Record<string, string>; body: Uint8Array<ArrayBuffer> } {
  const [grpc] = /^application\/grpc(-web)?(-text)?/.exec(contentType ?? '') ?? []
  if (grpc !== undefined)
    return {
      status: 200,
      headers: {
        'content-type': grpc,
        'grpc-status': String(code),
        'grpc-message': encodeURIComponent(message),
      },
      body: new Uint8Array(),
    }
  return {
    status,
    headers: {
      'content-type': 'application/json',
      ...(status === 401 && { 'www-authenticate': 'Bearer realm="sluice sidecar"' }),
    },
    body: new Uint8Array(errorToJsonBytes(new ConnectError(message, code), undefined)),
  }
}
