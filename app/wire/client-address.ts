// Finds the client of a request. Only a trusted proxy is believed in X-Forwarded-For, because any client can send the header.
import { BlockList, isIP } from 'node:net'

/** Facts about the connection; some runtimes do not know them. */
export interface Peer {
  readonly address: string | null
  /** The client has closed the connection, so the response has no receiver. */
  readonly isGone?: boolean
}

/** Parses addresses (`10.1.2.3`) and networks (`10.0.0.0/8`, `fd00::/8`); null when a text is neither. */
export function networksOf(texts: readonly string[]): BlockList | null {
  const networks = new BlockList()
  for (const text of texts) {
    const [address = '', prefix, ...rest] = text.split('/')
    const version = isIP(address)
    const bits = version === 4 ? 32 : 128
    const length = prefix === undefined ? bits : /^\d{1,3}$/.test(prefix) ? Number(prefix) : -1
    if (version === 0 || rest.length > 0 || length < 0 || length > bits) return null
    networks.addSubnet(address, length, version === 4 ? 'ipv4' : 'ipv6')
  }
  return networks
}

/** Both are plain addresses, without a port; empty when unknown. */
export interface Sender {
  /** Address of the client: the connection's, or the one that trusted proxies forward. */
  readonly address: string
  /** Address of the connection itself. */
  readonly peer: string
}

/** Whether a trusted proxy forwarded the request for another client. */
export const isForwarded = ({ address, peer }: Sender) => address !== peer

export type SenderOf = (request: Request, peer: Peer) => Sender

/** Reads the sender of a request. The client is the last address in X-Forwarded-For that is not a trusted proxy. */
export function makeSenderOf(trustedProxies: BlockList): SenderOf {
  const hasProxies = trustedProxies.rules.length > 0
  const isTrusted = (address: string) =>
    hasProxies && trustedProxies.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')

  return ({ headers }, connection) => {
    const peer = plain(connection.address ?? '')
    let client = peer
    const forwarded = client !== '' && isTrusted(client) ? headers.get('x-forwarded-for') : null
    // Each proxy appends the address of its own sender. Entries left of an untrusted address may be forged.
    for (const hop of forwarded?.split(',').reverse() ?? []) {
      const address = plain(hop.trim())
      if (address === '') break
      client = address
      if (!isTrusted(address)) break
    }
    return { address: client, peer }
  }
}

/** An address without port, brackets or the IPv6 form of an IPv4 address; empty when the text is not an address. */
function plain(text: string): string {
  // Fast path for nearly all addresses.
  if (isIP(text) === 4) return text
  const bare = /^\[(.*)\](?::\d+)?$/.exec(text)?.[1] ?? text.replace(/^([\d.]+):\d+$/, '$1')
  const address = bare.replace(/^::ffff:(?=[\d.]+$)/i, '').replace(/%.*$/, '')
  return isIP(address) === 0 ? '' : address.toLowerCase()
}
