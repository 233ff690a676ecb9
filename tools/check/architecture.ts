/**
 * Rules about imports, and about access to time, randomness and environment, as data. The test beside this file applies them to
 * the tree.
 */
import { posix } from 'node:path'
import { isBesideProduct, isTest as isTestFile, type SourceFile } from './folders.ts'

type Import = { specifier: string; isTypeOnly: boolean }

/** Entry files. Threads and processes start by path, so no file imports an entry file. Entry files may import anything. */
const ENTRY =
  /^(app\/entry\/main(-node|-deno)?|workers\/main|workers\/[\w-]+\.worker|simulation\/main|sidecars\/[\w-]+\/main|console\/build|examples\/demo|bench\/main)\.ts$/
/** The layers from which the files of each layer may import. A layer without an entry may import from all. */
export const ARROWS: Record<string, { mayImport: string[]; insteadOf: string }> = {
  machines: { mayImport: [], insteadOf: 'machines are pure: pass facts in with the event' },
  ground: { mayImport: [], insteadOf: 'every layer stands on ground: pass what it needs as an argument' },
  proto: { mayImport: ['ground'], insteadOf: 'proto is the wire format: it imports ground only' },
  lake: {
    mayImport: ['ground', 'proto'],
    insteadOf: 'lake serves app and sidecars: pass what it needs as an argument',
  },
  drizzle: {
    mayImport: ['ground', 'machines'],
    insteadOf: 'storage knows machines only: take values as arguments',
  },
  app: {
    mayImport: ['machines', 'drizzle', 'ground', 'proto', 'lake'],
    insteadOf: 'start workers and sidecars by path, and talk to them by message or RPC',
  },
  workers: {
    mayImport: ['machines', 'drizzle', 'ground', 'proto', 'lake', 'app'],
    insteadOf: 'a worker calls app services',
  },
  sidecars: {
    mayImport: ['ground', 'proto', 'lake'],
    insteadOf: 'a sidecar gets everything over RPC or the catalog API',
  },
  console: { mayImport: ['app', 'ground'], insteadOf: 'the console talks HTTP' },
  e2e: { mayImport: [], insteadOf: 'end-to-end tests speak HTTP' },
  examples: { mayImport: ['ground', 'proto'], insteadOf: 'examples speak HTTP, and plugins the protocol' },
}
const MACHINE_PACKAGES = /^(xstate|croner)(\/|$)/
/** Packages that take megabytes in each thread that loads them. */
const TOO_HEAVY_FOR_WORKERS = /^(elysia|@elysiajs\/|@aws-sdk\/|apache-arrow)/

/** Files that may read time, randomness and the environment. */
const DOORS =
  /^(app\/(config\/(config|access-settings)|core\/(clock|ids))\.ts$|console\/(api\/clock|build)\.ts$|sidecars\/|e2e\/|bench\/|examples\/)/
const OUTSIDE = [
  {
    pattern: /\bDate\.now\(|\bnew Date\b(?!\s*\([^)])/,
    name: 'the time of day',
    instead: 'take a Clock (app/core/clock.ts)',
  },
  { pattern: /\bMath\.random\(/, name: 'randomness', instead: 'take newId (app/core/ids.ts) or node:crypto' },
  {
    pattern: /\bprocess\.env\b/,
    name: 'the environment',
    instead: 'parse it in app/config/config.ts and pass the value in',
  },
]

/** Returns the violations of one file, each as `path: violation; what to do instead`. */
export function violationsOf(file: SourceFile): string[] {
  const { path } = file
  const isEntry = ENTRY.test(path)
  const isTest = isBesideLayers(file)
  const layer = layerOf(path)
  const found: string[] = []
  const report = (what: string, instead: string) => found.push(`${path}: ${what}; ${instead}`)

  for (const { specifier, isTypeOnly } of importsOf(file.source)) {
    const target = resolveImport(path, specifier)
    if (layer === 'console' && target !== undefined && layerOf(target) !== layer) {
      if (!isTypeOnly && !/^(ground\/names|lake\/pipeline\/)/.test(target))
        report(
          `imports ${target}`,
          'the console talks HTTP: import types only, or the pure code of lake/pipeline',
        )
      continue
    }
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

/** Packages that are too heavy for a thread and that a worker would load, with the chain of imports. */
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

/** Import cycles between files, type imports included. No file of a cycle can be read, tested or moved alone. */
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

/** Import cycles between folders, tests excluded. No folder of a cycle can be read alone. */
export function folderCirclesOf(files: SourceFile[]): string[] {
  const targets = new Map<string, Set<string>>()
  for (const { path, source } of files) {
    if (isTestFile(path) || /from 'bun:test'/.test(source)) continue
    const folder = sliceOf(path)
    const own = targets.get(folder) ?? new Set()
    targets.set(folder, own)
    for (const { specifier } of importsOf(source)) {
      const target = resolveImport(path, specifier)
      if (target && sliceOf(target) !== folder) own.add(sliceOf(target))
    }
  }
  return circlesIn(targets, 'move what both need to a folder below')
}

/** The folder of a file. A `store/` belongs to its slice, whose schema it reads. */
const sliceOf = (path: string) => posix.dirname(path).replace(/\/store$/, '')

const layerOf = (path: string) => path.split('/')[0] ?? ''
/**
 * Files for tests and tools. They may import from every layer, and may read time, randomness and environment. Examples and
 * end-to-end tests speak HTTP, so the layers hold for them.
 */
const isBesideLayers = (file: SourceFile) =>
  isBesideProduct(file) &&
  (!/^(e2e|examples)\//.test(file.path) || (isTestFile(file.path) && !file.path.endsWith('.spec.ts')))
const isAboveServices = (path: string) =>
  /^app\/((.+\/)?(page-)?routes|composition\/[\w-]+|entry\/[\w-]+)\.ts$/.test(path)
const mayNameBun = (path: string) => ENTRY.test(path) || /^(workers|sidecars|examples)\//.test(path)

function resolveImport(from: string, specifier: string): string | undefined {
  return specifier.startsWith('.') ? posix.join(posix.dirname(from), specifier) : undefined
}

/** Every static and dynamic import and re-export of a file. Type-only imports are marked. */
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

const transpilers = {
  ts: new Bun.Transpiler({ loader: 'ts', target: 'bun' }),
  tsx: new Bun.Transpiler({ loader: 'tsx', target: 'bun' }),
}

/** The executable code of a file, without comments and types. */
export const codeOf = ({ path, source }: SourceFile) =>
  transpilers[path.endsWith('.tsx') ? 'tsx' : 'ts'].transformSync(source)
