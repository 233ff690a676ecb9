// Names under which the service answers. In an open service this check stops DNS rebinding: a page of another site whose
// name resolves to our address is of the same origin for its browser, and only `Host` still says whose name was asked for.
import { AppError, invalid } from './errors.ts'
import { targetHost } from './target.ts'

/**
 * The host name of a `Host` value: lower case, without port and trailing dot. IPv4 and IPv6 addresses have their usual
 * spelling (`127.0.0.1`, `[::1]`). Null: the text is not a host.
 */
export function hostName(text: string): string | null {
  if (!/^[^\s/?#\\@]+$/.test(text) || !URL.canParse(`http://${text}/`)) return null
  const name = new URL(`http://${text}/`).hostname.replace(/\.$/, '')
  return name === '' ? null : name
}

/** Throws 400 for a `Host` that is not a host, and 421 for one that is not ours. */
export type CheckHost = (request: Request, pattern: string | null) => void

/**
 * Probes hold no data, and load balancers and kubelets ask them by the address of a container. `/metrics` is not among
 * them: it tells how busy the service is.
 */
const PROBE = /^\/health(\/|$)/

/**
 * `allowed` are names as `hostName` spells them; null: every name. Ports are not compared: a forwarded port is another one
 * than ours, and rebinding needs another name. The forwarded names of proxies are not looked at, because anybody can send
 * them.
 */
export function makeCheckHost(allowed: readonly string[] | null): CheckHost {
  const names = new Set(allowed)
  /** Nearly all requests have the same value. */
  let accepted: string | null = null

  return (request, pattern) => {
    const host = request.headers.get('host') ?? ''
    if (host === accepted) return
    const name = hostName(host || 'localhost')
    if (name === null) throw invalid('Host', 'must be a host, with or without a port')
    const isOurs = allowed === null || (host !== '' && names.has(name))
    if (isOurs) accepted = host
    else if (pattern === null || !PROBE.test(pattern)) throw misdirected(host)
  }
}

/**
 * Whether the target of a request and its `Host` name the same host. A target in absolute form has a host too, which counts
 * before the header (RFC 9112, 3.2.2): a server that reads the header and another that reads the target would differ.
 */
export const namesOneHost = (target: string, host: string): boolean =>
  target.startsWith('/') || target === '*' || hostName(targetHost(target)) === hostName(host)

/** An open answer to a name of somebody else would let the pages of that name read and write everything. */
const misdirected = (host: string) =>
  new AppError(
    421,
    'INVALID_ARGUMENT',
    `Host: ${host === '' ? 'none was sent' : `'${host.slice(0, SHOWN_LENGTH)}' is not accepted`} by a service without a key: ` +
      'add the name to ALLOWED_HOSTS, or set PLATFORM_API_KEY',
  )

/** A DNS name has at most 253 characters; longer ones are cut in the message. */
const SHOWN_LENGTH = 253
