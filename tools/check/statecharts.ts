/**
 * Keeps `docs/statecharts` equal to the machines, and the colours of the console's drawings equal to their style. As a program, this
 * file writes them. The checks compare them.
 */
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { consoleStyle } from '../../app/inspector/chart-style.ts'
import { definitionOf, leafStatesOf } from '../../app/inspector/definitions.ts'
import { drawingOf } from '../../app/inspector/drawing.ts'
import { type Definition, MACHINE_NAMES, type TransitionDefinition } from '../../app/inspector/schema.ts'

const ROOT = join(import.meta.dirname, '..', '..')
const FOLDER = join(ROOT, 'docs', 'statecharts')
const STYLE = join(ROOT, 'console', 'pages', 'inspector', 'statechart.css')

/** Contents of the files, by name. */
function statecharts(): Map<string, string> {
  const definitions = MACHINE_NAMES.map(definitionOf)
  return new Map([
    ...definitions.map((definition): [string, string] => [
      `${definition.machine}.svg`,
      drawingOf(definition, { detail: 'full', isStandalone: true }),
    ]),
    ['README.md', page(definitions)],
  ])
}

/** Names of files that are missing, different or obsolete. */
export async function statechartDrift(): Promise<string[]> {
  const wanted = statecharts()
  const there = await readdir(FOLDER).catch(() => [])
  const names = [...new Set([...wanted.keys(), ...there])].sort()
  const different = await Promise.all(
    names.map(async (name) => {
      const committed = await readFile(join(FOLDER, name), 'utf8').catch(() => undefined)
      return committed === wanted.get(name) ? [] : [name]
    }),
  )
  const isStyled = (await readFile(STYLE, 'utf8').catch(() => '')) === consoleStyle()
  return [...different.flat(), ...(isStyled ? [] : ['statechart.css of the console'])]
}

async function write() {
  await rm(FOLDER, { recursive: true, force: true })
  await mkdir(FOLDER, { recursive: true })
  for (const [name, content] of statecharts()) await writeFile(join(FOLDER, name), content)
  await writeFile(STYLE, consoleStyle())
}

const page = (definitions: readonly Definition[]) => `# Statecharts

Drawn from [\`machines/\`](../../machines) by \`node .setup/bun.mjs tools/check/statecharts.ts\`; the tests fail when they differ. The
[inspector](../inspector.md) shows the same drawings with what is in each state now.

An arrow says \`event [guard] / changes and effects\`. Arrows from a dashed box leave each of the states in it.
${definitions.map(section).join('')}`

const section = (definition: Definition) => `
## ${definition.machine.charAt(0).toUpperCase()}${definition.machine.slice(1)}
${definition.summary} Machine version ${definition.version}: [\`machines/${definition.machine}.ts\`](../../machines/${definition.machine}.ts).

![Statechart of the ${definition.machine} machine](${definition.machine}.svg)

| State | |
|---|---|
${leafStatesOf(definition)
  .map(({ path, description }) => `| \`${path}\` | ${description} |`)
  .join('\n')}

| From | Event | Guard | To | Changes and effects |
|---|---|---|---|---|
${definition.transitions.map(row).join('\n')}
`

const row = ({ from, event, guard, to, updates, effects }: TransitionDefinition) =>
  `| \`${from}\` | ${event} | ${guard ?? ''} | \`${to}\` | ${[...updates, ...effects].join(', ')} |`

if (import.meta.main) await write()
