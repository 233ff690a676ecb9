/** The Helm chart: linted by helm, judged by kubeconform against the schemas of Kubernetes, its variables by the service. */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parse, parseAllDocuments } from 'yaml'
import { goProgram } from '../../install/go.ts'
import { run } from '../../kit/run.ts'
import type { Tally } from '../../kit/tally.ts'
import { KUBERNETES_VERSION, writeKubernetesSchemas } from './kubernetes-schemas.ts'
import { type Env, type PackagedPart, type PartName, problemsOf, SECRETS } from './variables.ts'

const CHART = join(import.meta.dirname, '..', '..', 'packages', 'helm')
const HELM = { source: 'helm.sh/helm/v3/cmd/helm', version: 'v3.22.0' }
const KUBECONFORM = { source: 'github.com/yannh/kubeconform/cmd/kubeconform', version: 'v0.8.0' }
const LIMIT_MS = 60_000
/** Settings of an operator: the defaults, and every option at once. */
const INSTALLATIONS: Record<string, string[]> = {
  defaults: [],
  'all options': [
    'runner.autoscaling.enabled=true',
    'objectStore.endpoint=http://s3:7070',
    'publicUrl=https://sluice.example.com',
    'api.env.RATE_LIMIT=100',
    'networkPolicy.apiFrom[0].namespaceSelector.matchLabels.name=ingress',
    'serviceAccount.annotations.role=sluice',
  ],
}
/** Mistakes that the schema of the values must refuse. */
const MISTAKES = ['replicas=2', 'runner.concurrency=0', 'api.env.lower=1', 'existingSecret=']

type Manifest = {
  kind: string
  metadata: { name: string }
  spec: Record<string, unknown> & { template?: { spec: PodSpec } }
}
type PodSpec = { securityContext: object; containers: ContainerSpec[] }
type ContainerSpec = {
  name: PartName
  image: string
  env: { name: string; value?: string }[]
  securityContext: object
  resources: object
  startupProbe: object
  readinessProbe: object
  livenessProbe: object
}

export type ChartTools = { helm: string; kubeconform: string }

/** Builds helm and kubeconform at the first use, which takes minutes. */
export const chartTools = async (): Promise<ChartTools> => ({
  helm: await goProgram('helm', HELM),
  kubeconform: await goProgram('kubeconform', KUBECONFORM),
})

/** Checks the chart. `image` are the variables that the image sets, `metrics` the text of /metrics of a running service. */
export async function judgeChart(
  tally: Tally,
  {
    folder,
    version,
    image,
    metrics,
    tools,
  }: { folder: string; version: string; image: Env; metrics: string; tools: ChartTools },
) {
  const { helm, kubeconform } = tools
  const render = async (settings: string[]) => {
    const sets = settings.flatMap((setting) => ['--set', setting])
    const options = ['--namespace', 'data', '--kube-version', KUBERNETES_VERSION, ...sets]
    return run({ command: [helm, 'template', 'team', CHART, ...options], limitMs: LIMIT_MS })
  }
  await tally.check('chart and values have the version of package.json', async () => {
    const { version: chart, appVersion } = parse(await readFile(join(CHART, 'Chart.yaml'), 'utf8'))
    return chart === version && appVersion === version ? undefined : `${chart}, ${appVersion}`
  })
  await tally.check('helm lint --strict accepts the chart', async () => {
    const { code, output } = await run({ command: [helm, 'lint', '--strict', CHART], limitMs: LIMIT_MS })
    return code === 0 ? undefined : output
  })
  await tally.check('the schema of the values refuses mistakes', async () => {
    for (const mistake of MISTAKES) if ((await render([mistake])).code === 0) return `${mistake} is accepted`
  })
  const schemas = await writeKubernetesSchemas(join(folder, 'schemas'))
  const judge = (file: string) =>
    run({
      command: [kubeconform, '-strict', '-summary', '-schema-location', schemas, file],
      limitMs: LIMIT_MS,
    })
  await tally.check('kubeconform refuses a manifest with an unknown field', async () => {
    const wrong = join(folder, 'wrong.yaml')
    await writeFile(wrong, 'apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {portz: []}\n')
    return (await judge(wrong)).code === 0 ? 'the manifest is accepted' : undefined
  })
  for (const [title, settings] of Object.entries(INSTALLATIONS)) {
    const rendered = await render(settings)
    const manifests = parseAllDocuments(rendered.output).flatMap((one): Manifest[] => one.toJSON() ?? [])
    await tally.check(`kubeconform -strict accepts the manifests (${title})`, async () => {
      if (rendered.code !== 0) return rendered.output
      const file = join(folder, 'rendered.yaml')
      await writeFile(file, rendered.output)
      const { code, output } = await judge(file)
      return code === 0 && output.includes(`Valid: ${manifests.length},`) ? undefined : output
    })
    await tally.check(`the variables of the chart are known and fit together (${title})`, async () => {
      const problems = problemsOf(manifests.flatMap((manifest) => partsOf(manifest, image)))
      return problems.length === 0 ? undefined : problems.join('\n')
    })
    await tally.check(`every pod is restricted, probed and limited (${title})`, async () =>
      problemOfPods(manifests),
    )
  }
  await tally.check('the autoscaler follows a metric that the service has', async () => {
    const { output } = await render(INSTALLATIONS['all options'] ?? [])
    const name = /metric:\s+name: (\w+)/.exec(output)?.[1] ?? 'no metric'
    return new RegExp(`^${name} \\d`, 'm').test(metrics) ? undefined : name
  })
}

const containersOf = ({ spec }: Manifest) => spec?.template?.spec.containers ?? []

/** The parts of a workload, with one entry for each pod that has a name of its own. */
function partsOf(manifest: Manifest, image: Env): PackagedPart[] {
  const count = manifest.kind === 'StatefulSet' ? Number(manifest.spec.replicas ?? 8) : 1
  const pods = Array.from({ length: count }, (_, n) => `${manifest.metadata.name}-${n}`)
  return containersOf(manifest).flatMap(({ name, env }) =>
    pods.map((pod) => {
      const values = env.map((one) => [
        one.name,
        (one.value ?? SECRETS[one.name] ?? '').replace('$(POD_NAME)', pod),
      ])
      return {
        part: name,
        title: pod,
        env: { ...image, ...Object.fromEntries(values) },
        own: env.map((one) => one.name),
      }
    }),
  )
}

const RESTRICTED_POD = { runAsNonRoot: true, runAsUser: 10_001, seccompProfile: { type: 'RuntimeDefault' } }
const RESTRICTED_CONTAINER = {
  allowPrivilegeEscalation: false,
  readOnlyRootFilesystem: true,
  capabilities: { drop: ['ALL'] },
}

function problemOfPods(manifests: readonly Manifest[]): string | undefined {
  const workloads = manifests.filter((manifest) => containersOf(manifest).length > 0)
  if (workloads.length !== 3) return `${workloads.length} workloads`
  for (const { metadata, spec } of workloads) {
    const pod = spec.template?.spec
    const [container] = pod?.containers ?? []
    const isRestricted =
      Bun.deepMatch(RESTRICTED_POD, pod?.securityContext ?? {}) &&
      Bun.deepMatch(RESTRICTED_CONTAINER, container?.securityContext ?? {})
    const isProbed = container?.startupProbe && container.readinessProbe && container.livenessProbe
    const isLimited = Bun.deepMatch({ limits: {}, requests: {} }, container?.resources ?? {})
    if (!isRestricted || !isProbed || !isLimited) return `${metadata.name}\n${JSON.stringify(pod, null, 2)}`
  }
  const has = (kind: string) => manifests.filter((manifest) => manifest.kind === kind).length
  return has('PodDisruptionBudget') === 3 && has('NetworkPolicy') === 4 ? undefined : 'a policy is missing'
}
