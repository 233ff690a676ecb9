/** The rules of who may import what and who may touch the world, as data. The test beside this file applies them to the tree. */
import { posix } from 'node:path'

export type SourceFile = { path: string; source: string }
export type Import = { specifier: string; isTypeOnly: boolean }

/** Threads and processes are started by path: nobody imports these, and these may import anything. */
const ENTRY =
  /^(app\/main(-node|-deno)?|workers\/main|workers\/[\w-]+\.worker|workers\/simulation\/main|sidecars\/[\w-]+\/main|examples\/demo|bench\/main)\.ts$/
/** What exists for tests only (these, and whatever imports bun:test) may reach for anything that is real. */
const TEST =
  /\.(test|interop)\.ts$|(^|\/)(test-[\w-]+|testing)\.ts$|^(\.setup|tools|bench|workers\/simulation)\//

/** The part of `app/core/` that sidecars share with the API and the workers. */
const SHARED = 'app/core/process'

/** Layer by layer: the folders its files may import from. Anything not listed is a layer of its own. */
const ARROWS: Record<string, { mayImport: string[]; insteadOf: string }> = {
  machines: { mayImport: [], insteadOf: 'machines are pure: pass facts in with the event' },
  [SHARED]: {
    mayImport: [],
    insteadOf: 'processes of every kind share it: pass what it needs as an argument',
  },
  proto: { mayImport: [], insteadOf: 'the wire knows nobody' },
  lake: {
    mayImport: ['proto'],
    insteadOf: 'lake serves app and sidecars: pass what it needs as an argument',
  },
  drizzle: { mayImport: ['machines'], insteadOf: 'storage knows machines only: take values as arguments' },
  app: {
    mayImport: ['machines', 'drizzle', SHARED, 'proto', 'lake'],
    insteadOf: 'start workers and sidecars by path, and talk to them by message or RPC',
  },
  workers: {
    mayImport: ['machines', 'drizzle', SHARED, 'proto', 'lake', 'app'],
    insteadOf: 'a worker calls app services',
  },
  sidecars: {
    mayImport: [SHARED, 'proto', 'lake'],
    insteadOf: 'a sidecar gets everything over RPC or the catalog API',
  },
  inspector: { mayImport: [], insteadOf: 'the page talks HTTP' },
  e2e: { mayImport: [], insteadOf: 'end-to-end tests speak HTTP' },
  examples: { mayImport: ['proto'], insteadOf: 'examples speak HTTP, and plugins the protocol' },
}
const MACHINE_PACKAGES = /^(xstate|croner)(\/|$)/
/** Megabytes in each thread that loads them. */
const TOO_HEAVY_FOR_WORKERS = /^(elysia|@elysiajs\/|@aws-sdk\/|apache-arrow)/

/** Places that may ask the world for time, chance and environment. */
const DOORS = /^(app\/core\/(config|clock|ids)\.ts$|sidecars\/|e2e\/|bench\/|examples\/)/
const OUTSIDE = [
  {
    pattern: /\bDate\.now\(|\bnew Date\b(?!\s*\([^)])/,
    name: 'the time of day',
    instead: 'take a Clock (app/core/clock.ts)',
  },
  { pattern: /\bMath\.random\(/, name: 'chance', instead: 'take newId (app/core/ids.ts) or node:crypto' },
  {
    pattern: /\bprocess\.env\b/,
    name: 'the environment',
    instead: 'parse it in app/core/config.ts and pass the value in',
  },
]

/** What one file does that it may not, each as `path: what, and what to do instead`. */
export function violationsOf(file: SourceFile): string[] {
  const { path } = file
  const isEntry = ENTRY.test(path)
  const isTest = TEST.test(path) || /from 'bun:test'/.test(file.source)
  const layer = layerOf(path)
  const found: string[] = []
  const report = (what: string, instead: string) => found.push(`${path}: ${what}; ${instead}`)

  for (const { specifier } of importsOf(file.source)) {
    const target = resolveImport(path, specifier)
    if (target === undefined) {
      if (layer === 'machines' && !isTest && !MACHINE_PACKAGES.test(specifier))
        report(`imports ${specifier}`, 'machines import xstate and croner only')
      if (/^bun(:|$)/.test(specifier) && !isTest && !mayNameBun(path))
        report(`imports ${specifier}`, 'use web standards or node: modules, or move it to an entry file')
      continue
    }
    if (ENTRY.test(target))
      report(`imports the entry file ${target}`, 'start it by path, or move what you need out of it')
    if (isEntry || isTest) continue
    const rule = ARROWS[layer]
    if (rule && layerOf(target) !== layer && !rule.mayImport.includes(layerOf(target)))
      report(`imports ${target}`, rule.insteadOf)
    if (isAboveServices(target) && !isAboveServices(path))
      report(`imports ${target}`, 'routes and server stand above services: move what you need to a service')
    if (target.endsWith('/store.ts') && posix.dirname(target) !== posix.dirname(path))
      report(`imports ${target}`, `call ${posix.dirname(target)}/service.ts`)
  }

  if (isTest) return found
  const code = codeOf(file)
  if (/\bBun\.[a-zA-Z]/.test(code) && !mayNameBun(path))
    report('names Bun', 'use web standards or node: modules, or move it to an entry file')
  if (isEntry || DOORS.test(path)) return found
  for (const { pattern, name, instead } of OUTSIDE)
    if (pattern.test(code)) report(`asks for ${name}`, instead)
  return found
}

/** Packages too heavy for a thread that a worker would load, with the way that leads there. */
export function heavyImportsOfWorkers(files: SourceFile[]): string[] {
  const byPath = new Map(files.map((file) => [file.path, file]))
  const found: string[] = []
  for (const worker of files.filter(({ path }) => /^workers\/[\w-]+\.worker\.ts$/.test(path))) {
    const seen = new Set<string>()
    const visit = (path: string, way: string[]) => {
      if (seen.has(path)) return
      seen.add(path)
      for (const { specifier, isTypeOnly } of importsOf(byPath.get(path)?.source ?? '')) {
        if (isTypeOnly) continue
        const target = resolveImport(path, specifier)
        if (target) visit(target, [...way, target])
        else if (TOO_HEAVY_FOR_WORKERS.test(specifier))
          found.push(`${way.join(' -> ')} loads ${specifier}; move that import above the services`)
      }
    }
    visit(worker.path, [worker.path])
  }
  return found
}

/** Files that import each other, types included: neither can be read, tested or moved without the other. */
export function circlesOf(files: SourceFile[]): string[] {
  const targets = new Map(
    files.map(({ path, source }) => [
      path,
      importsOf(source).flatMap(({ specifier }) => resolveImport(path, specifier) ?? []),
    ]),
  )
  return circlesIn(targets, 'move what both need to a file of its own')
}

function circlesIn(targets: ReadonlyMap<string, Iterable<string>>, instead: string): string[] {
  const found: string[] = []
  const done = new Set<string>()
  const visit = (path: string, way: string[]) => {
    const before = way.indexOf(path)
    if (before >= 0) found.push(`${[...way.slice(before), path].join(' -> ')}; ${instead}`)
    if (before >= 0 || done.has(path)) return
    for (const target of targets.get(path) ?? []) visit(target, [...way, path])
    done.add(path)
  }
  for (const path of targets.keys()) visit(path, [])
  return found
}

/** Folders of `app/` that import each other, tests left out: no slice of such a knot can be read alone. */
export function folderCirclesOf(files: SourceFile[]): string[] {
  const targets = new Map<string, Set<string>>()
  for (const { path, source } of files) {
    if (!path.startsWith('app/') || TEST.test(path) || /\.child\.ts$|from 'bun:test'/.test(path + source))
      continue
    const folder = sliceOf(path)
    const own = targets.get(folder) ?? new Set()
    targets.set(folder, own)
    for (const { specifier } of importsOf(source)) {
      const target = resolveImport(path, specifier)
      if (target?.startsWith('app/') && sliceOf(target) !== folder) own.add(sliceOf(target))
    }
  }
  return circlesIn(targets, 'move what both need to app/core')
}

/** The folder of a file of `app/`. A `store/` belongs to its slice, whose schema it reads. */
const sliceOf = (path: string) => posix.dirname(path).replace(/\/store$/, '')

const layerOf = (path: string) => (path.startsWith(`${SHARED}/`) ? SHARED : (path.split('/')[0] ?? ''))
const isAboveServices = (path: string) =>
  /^app\/((.+\/)?(page-)?routes|server|compose|process|node-server|main(-\w+)?)\.ts$/.test(path)
const mayNameBun = (path: string) =>
  ENTRY.test(path) || TEST.test(path) || /^(workers|sidecars|examples)\//.test(path)

function resolveImport(from: string, specifier: string): string | undefined {
  return specifier.startsWith('.') ? posix.join(posix.dirname(from), specifier) : undefined
}

/** Every static and dynamic import and re-export of a file, type-only ones marked. */
export function importsOf(source: string): Import[] {
  const text = source.replace(/\/\*[\s\S]*?\*\//g, '').replace(/(^|\s)\/\/.*$/gm, '$1')
  const found = text.matchAll(
    /\b(?:import|export)\s+(type\s)?[^'"`;()]*?\bfrom\s*['"]([^'"]+)['"]|\bimport\s*\(?\s*['"]([^'"]+)['"]/g,
  )
  return [...found].map(([, type, from, bare]) => ({
    specifier: from ?? bare ?? '',
    isTypeOnly: Boolean(type),
  }))
}

const transpiler = new Bun.Transpiler({ loader: 'ts', target: 'bun' })

/** The code that runs: no comments, no types. */
const codeOf = ({ source }: SourceFile) => transpiler.transformSync(source)
