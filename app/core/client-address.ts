// Whose request it is. A proxy in front of us says so in X-Forwarded-For; anybody else could write anything there.
import { BlockList, isIP } from 'node:net'

/** What the server knows about the connection; other runtimes may know nothing. */
export interface Peer {
  readonly address: string | null
  /** The client has closed the connection: nobody receives the answer. */
  readonly isGone?: boolean
}

/** Addresses (`10.1.2.3`) and networks (`10.0.0.0/8`, `fd00::/8`); null: one of them is neither. */
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

/** A trusted proxy sent the request for somebody else. */
export const isForwarded = ({ address, peer }: Sender) => address !== peer

export type SenderOf = (request: Request, peer: Peer) => Sender

/** Reads the sender of a request. The client is the last address in X-Forwarded-For that is no trusted proxy. */
export function makeSenderOf(trustedProxies: BlockList): SenderOf {
  const hasProxies = trustedProxies.rules.length > 0
  const isTrusted = (address: string) =>
    hasProxies && trustedProxies.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')

  return ({ headers }, connection) => {
    const peer = plain(connection.address ?? '')
    let client = peer
    const forwarded = client !== '' && isTrusted(client) ? headers.get('x-forwarded-for') : null
    // Each proxy appends whom it heard from: what stands left of one that is not ours is anybody's claim.
    for (const hop of forwarded?.split(',').reverse() ?? []) {
      const address = plain(hop.trim())
      if (address === '') break
      client = address
      if (!isTrusted(address)) break
    }
    return { address: client, peer }
  }
}

/** Without a port, brackets or the IPv6 form of an IPv4 address; empty when it is no address. */
function plain(text: string): string {
  // As nearly all come.
  if (isIP(text) === 4) return text
  const bare = /^\[(.*)\](?::\d+)?$/.exec(text)?.[1] ?? text.replace(/^([\d.]+):\d+$/, '$1')
  const address = bare.replace(/^::ffff:(?=[\d.]+$)/i, '').replace(/%.*$/, '')
  return isIP(address) === 0 ? '' : address.toLowerCase()
}
