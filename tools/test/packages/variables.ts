/**
 * Checks the variables that a package sets. The parsers of the service itself read them, so there is no second list of variables.
 * A name that no parser asks for is unknown, and a value that a parser refuses is wrong.
 */
import { parseConfig } from '../../../app/config/config.ts'
import { parseSettings as parseQuery } from '../../../sidecars/query/settings.ts'
import { parseSettings as parseRunner } from '../../../sidecars/runner/settings.ts'

export type Env = Record<string, string>
export type PartName = 'api' | 'runner' | 'query'
/** A part as a package starts it. `own` are the names that the package sets for this part alone. */
export type PackagedPart = { part: PartName; title: string; env: Env; own: readonly string[] }

/** Variables that other programs read: the shell, and the chart itself in the value of another variable. */
const OF_OTHERS = ['PATH', 'POD_NAME']
const MACHINE = { cores: 2, memoryBytes: 8 * 1_073_741_824 }
const PORTS = { runner: 8081, query: 8082 }

/** Values of secrets, for variables that a package leaves to the operator. */
export const SECRETS: Env = {
  DATABASE_URL: 'postgres://sluice:secret@database:5432/sluice',
  PLATFORM_API_KEY: 'k'.repeat(32),
  POSTGRES_PASSWORD: 'p'.repeat(32),
  S3_ACCESS_KEY_ID: 'sluice',
  S3_SECRET_ACCESS_KEY: 's'.repeat(32),
  SIDECAR_TOKEN: 't'.repeat(32),
}

/** Parses the variables of every part, and checks that the parts reach each other. Returns the problems. */
export function problemsOf(parts: readonly PackagedPart[]): string[] {
  const problems: string[] = []
  const read = <Parsed>({ title, env, own }: PackagedPart, parse: (env: Env) => Parsed) => {
    const asked = new Set(OF_OTHERS)
    try {
      const parsed = parse(new Proxy(env, { get: (of, name) => asked.add(String(name)) && of[String(name)] }))
      const unknown = own.filter((name) => !asked.has(name))
      if (unknown.length > 0) problems.push(`${title}: no part reads ${unknown.join(', ')}`)
      return [parsed]
    } catch (error) {
      problems.push(`${title}: ${error instanceof Error ? error.message : error}`)
      return []
    }
  }
  const of = (name: PartName) => parts.filter(({ part }) => part === name)
  const apis = of('api').flatMap((part) => read(part, (env) => parseConfig(env, '/')))
  const runners = of('runner').flatMap((part) => read(part, (env) => parseRunner(env, MACHINE)))
  const queries = of('query').flatMap((part) => read(part, (env) => parseQuery(env, MACHINE)))
  if (apis.length === 0 || runners.length === 0 || queries.length === 0) problems.push('a part is missing')

  for (const { publicUrl, sidecarToken, runnerUrls, queryUrls } of apis) {
    for (const sidecar of [...runners, ...queries]) {
      if (!sidecar.apiUrls.includes(publicUrl)) problems.push(`no sidecar may call the API at ${publicUrl}`)
      if (sidecar.token !== sidecarToken) problems.push('API and sidecars have different tokens')
    }
    problems.push(...unreachable(runnerUrls ?? [], runners, PORTS.runner))
    problems.push(...unreachable(queryUrls ?? [], queries, PORTS.query))
  }
  return [...new Set(problems)]
}

/** Addresses of sidecars that no sidecar accepts as its own, and sidecars without an address. */
function unreachable(
  urls: readonly string[],
  sidecars: readonly { host: string; port: number; otherHosts: readonly string[] }[],
  defaultPort: number,
): string[] {
  const hostsOf = ({ host, otherHosts }: (typeof sidecars)[number]) => [host, ...otherHosts]
  const lost = urls.filter((url) => {
    const { hostname, port } = new URL(url)
    return !sidecars.some((one) => hostsOf(one).includes(hostname) && one.port === Number(port))
  })
  const unused = sidecars.filter(
    (one) => one.port !== defaultPort || !urls.some((url) => hostsOf(one).includes(new URL(url).hostname)),
  )
  return [
    ...lost.map((url) => `no sidecar answers at ${url}`),
    ...unused.map(({ otherHosts }) => `no API calls the sidecar ${otherHosts.join(', ')}`),
  ]
}
