/**
 * Schemas for kubeconform, made from the OpenAPI document of Kubernetes. The document is part of the Go module of Kubernetes.
 */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { insisting } from '../../install/installing.ts'
import { run } from '../../kit/run.ts'

export const KUBERNETES_VERSION = '1.36.3'
const DOWNLOAD_LIMIT_MS = 5 * 60_000

type Schema = Record<string, unknown>
type Definition = Schema & {
  'x-kubernetes-group-version-kind'?: { group: string; version: string; kind: string }[]
}
type Definitions = Record<string, Definition>

/** Writes one strict schema for each kind. Returns the pattern of their paths, as kubeconform expects it. */
export async function writeKubernetesSchemas(folder: string): Promise<string> {
  const module = `k8s.io/kubernetes@v${KUBERNETES_VERSION}`
  const directory = await insisting(`go mod download ${module}`, () => download(module, folder))
  const { definitions } = await Bun.file(join(directory, 'api', 'openapi-spec', 'swagger.json')).json()
  await mkdir(folder, { recursive: true })
  for (const [name, definition] of Object.entries(definitions as Definitions)) {
    const [kind] = definition['x-kubernetes-group-version-kind'] ?? []
    if (kind === undefined) continue
    const [group = ''] = kind.group.split('.')
    const file = [kind.kind, group, kind.version].filter((part) => part !== '').join('-')
    const schema = { $ref: `#/definitions/${name}`, definitions: closureOf(name, definitions) }
    await writeFile(join(folder, `${file.toLowerCase()}.json`), JSON.stringify(schema))
  }
  return join(folder, '{{ .ResourceKind }}{{ .KindSuffix }}.json')
}

async function download(module: string, cwd: string): Promise<string> {
  await mkdir(cwd, { recursive: true })
  const { code, output } = await run({
    command: ['go', 'mod', 'download', '-json', module],
    cwd,
    limitMs: DOWNLOAD_LIMIT_MS,
  })
  const directory = /"Dir": "(.*)"/.exec(output)?.[1]
  if (code !== 0 || directory === undefined) throw new Error(output)
  return directory
}

/** The definition and all that it refers to. Fields that Kubernetes does not know are errors. */
function closureOf(root: string, definitions: Definitions): Definitions {
  const found: Definitions = {}
  const visit = (name: string) => {
    if (found[name] !== undefined) return
    const definition = definitions[name] ?? {}
    found[name] = strict(definition)
    for (const [, next = ''] of JSON.stringify(definition).matchAll(/"#\/definitions\/([^"]+)"/g)) visit(next)
  }
  visit(root)
  return found
}

function strict(definition: Definition): Definition {
  if (definition.format === 'int-or-string') return { oneOf: [{ type: 'string' }, { type: 'integer' }] }
  const isOpen = definition.properties === undefined || definition.additionalProperties !== undefined
  return isOpen ? definition : { ...definition, additionalProperties: false }
}
