// The connection string of Spark Connect. Source: Apache Spark, client connection string.

/** A server, and the credential and the user name that it gets. */
export interface SparkAddress {
  /** `http` or `https`. */
  url: string
  token: string | null
  userId: string
}

const PORT = 15_002
const USER = 'sluice'

/** Reads `sc://host:port/;token=...;use_ssl=true;user_id=...`. Null: not such an address. */
export function sparkAddressIn(text: string): SparkAddress | null {
  const [, host, port = String(PORT), rest = ''] =
    /^sc:\/\/(\[[^\]/;]+\]|[^:/;[\]@]+)(?::(\d{1,5}))?(?:\/;?(.*))?$/.exec(text) ?? []
  if (host === undefined) return null
  const parameters = new Map<string, string>()
  for (const part of rest.split(';').filter((part) => part !== '')) {
    const at = part.indexOf('=')
    if (at < 1) return null
    parameters.set(part.slice(0, at), decodeURIComponent(part.slice(at + 1)))
  }
  const known = ['token', 'use_ssl', 'user_id', 'user_agent']
  if ([...parameters.keys()].some((name) => !known.includes(name))) return null
  const token = parameters.get('token') ?? null
  // A token is never sent in the clear, as in Spark's own clients.
  const isSecure = parameters.get('use_ssl') === 'true' || token !== null
  return {
    url: `${isSecure ? 'https' : 'http'}://${host}:${port}`,
    token,
    userId: parameters.get('user_id') ?? USER,
  }
}
