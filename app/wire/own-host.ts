// The host names of the service. In an open service, this check prevents DNS rebinding. A site can let its name resolve to our
// address; for the browser, its pages then share our origin. Only `Host` still shows the name that the page used.
import { AppError, invalid } from '../core/errors.ts'
import { targetHost } from './target.ts'

/**
 * The host name of a `Host` value: lower case, without port and trailing dot. IPv4 and IPv6 addresses have their usual spelling
 * (`127.0.0.1`, `[::1]`). Null: the text is not a host.
 */
export function hostName(text: string): string | null {
  if (!/^[^\s/?#\\@]+$/.test(text) || !URL.canParse(`http://${text}/`)) return null
  const name = new URL(`http://${text}/`).hostname.replace(/\.$/, '')
  return name === '' ? null : name
}

/** Throws 400 for a `Host` that is not a host, and 421 for a name that the service does not accept. */
export type CheckHost = (request: Request, pattern: string | null) => void

/**
 * Probes return no data, and load balancers and kubelets send them to the address of a container. `/metrics` is not a probe,
 * because it reveals the load of the service.
 */
const PROBE = /^\/health(\/|$)/

/**
 * `allowed` contains names as `hostName` spells them; null: every name. Ports are not compared: a forwarded port differs from
 * ours, and rebinding needs another name. Forwarded names of proxies are ignored, because any client can send them.
 */
export function makeCheckHost(allowed: readonly string[] | null): CheckHost {
  const names = new Set(allowed)
  /** The latest accepted value: nearly all requests have the same. */
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
 * Whether the target of a request and its `Host` name the same host. A target in absolute form has a host too, which takes
 * precedence over the header (RFC 9112, 3.2.2). Servers that read only one of the two would disagree.
 */
export const namesOneHost = (target: string, host: string): boolean =>
  target.startsWith('/') || target === '*' || hostName(targetHost(target)) === hostName(host)

/** An open service must not answer under a foreign name: pages of that name could read and write everything. */
const misdirected = (host: string) =>
  new AppError(
    421,
    'INVALID_ARGUMENT',
    `Host: ${host === '' ? 'is required' : `'${host.slice(0, SHOWN_LENGTH)}' is not accepted`} by a service without a key: ` +
      'add the name to ALLOWED_HOSTS, or set PLATFORM_API_KEY',
  )

/** A DNS name has at most 253 characters; the message truncates a longer text. */
const SHOWN_LENGTH = 253
