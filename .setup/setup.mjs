/**
 * Installs missing software, with only Node and npm: first the pinned Bun from npm into `.bun/`, then the dependencies of
 * `bun.lock`. Then it bundles the console. Runs before each npm script. When everything is done, it only reads files.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, linkSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const NODE_MAJOR = 20
const LOCK_DEADLINE_MS = 15 * 60_000
/** Pauses before further attempts at an installation, because a registry may fail for a moment. */
const PAUSES_MS = [1_000, 5_000]

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const home = join(root, '.bun')
const bunVersionFile = join(home, 'installed-version')
const dependenciesStamp = join(root, 'node_modules', '.installed-lock')
const consoleStamp = join(root, 'console', 'dist', 'sources')

/** The path of the pinned Bun, valid after `setUp`. npm uses this name on every platform. */
export const bunPath = join(home, 'node_modules', 'bun', 'bin', 'bun.exe')

/**
 * Installs the versions of Bun and of the dependencies that this checkout names. Throws an Error whose message says what to do.
 */
function setUp() {
  if (Number.parseInt(process.versions.node, 10) < NODE_MAJOR) {
    throw new Error(`Node ${NODE_MAJOR} or newer is needed, this is ${process.version}`)
  }
  if (isDone()) return
  mkdirSync(home, { recursive: true })
  const unlock = lock(join(home, 'lock'))
  try {
    if (read(bunVersionFile) !== bunVersion()) step(`Installing Bun ${bunVersion()}`, installBun)
    if (read(dependenciesStamp) !== dependenciesHash()) step('Installing dependencies', installDependencies)
    if (read(consoleStamp) !== consoleHash()) step('Building the console', buildConsole)
  } finally {
    unlock()
  }
}

const isDone = () =>
  existsSync(bunPath) &&
  read(bunVersionFile) === bunVersion() &&
  read(dependenciesStamp) === dependenciesHash() &&
  read(consoleStamp) === consoleHash()

/** The version of Bun's types is also the version of Bun, so that the two cannot differ. */
const bunVersion = () => JSON.parse(read(join(root, 'package.json'))).devDependencies['bun-types']

const dependenciesHash = () =>
  createHash('sha256')
    .update(read(join(root, 'package.json')))
    .update(read(join(root, 'bun.lock')))
    .update(bunVersion())
    .digest('hex')

/** Changes with every source that the console bundles and with the versions of its libraries. */
function consoleHash() {
  const folders = [join(root, 'console'), join(root, 'ground'), join(root, 'lake', 'pipeline')]
  const paths = folders
    .flatMap((folder) => readdirSync(folder, { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile() && /\.(tsx?|css|svg)$/.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => !path.startsWith(join(root, 'console', 'dist')))
    .sort()
  const hash = createHash('sha256').update(read(join(root, 'bun.lock')))
  for (const path of paths) hash.update(path.slice(root.length)).update(read(path))
  return hash.digest('hex')
}

function buildConsole() {
  const hash = consoleHash()
  run([bunPath, join('console', 'build.ts')])
  writeFileSync(consoleStamp, hash)
}

function installBun() {
  if (!runs(bunPath)) fetchBun()
  writeFileSync(bunVersionFile, bunVersion())
}

/**
 * Installs Bun's binary from a tarball whose hash this repository pins. The `bun` package itself is not needed: its install
 * script only chooses among the packages of the platforms.
 */
function fetchBun() {
  const version = bunVersion()
  const pinned = JSON.parse(read(join(root, '.setup', 'bun-integrity.json')))
  if (pinned.version !== version)
    throw new Error(
      `.setup/bun-integrity.json has the hashes of Bun ${pinned.version}, not ${version}: replace them (npm view @oven/bun-<platform>@${version} dist.integrity)`,
    )
  for (const name of packagesOf(process.platform, process.arch)) {
    const integrity = pinned.packages[name]
    if (integrity === undefined) continue
    installPackage(name, { version, integrity })
    const binary = join(home, 'node_modules', name, 'bin', 'bun')
    if (!runs(binary)) continue
    mkdirSync(dirname(bunPath), { recursive: true })
    linkSync(binary, bunPath)
    return
  }
  throw new Error(`Bun has no binary that runs on ${process.platform}-${process.arch}`)
}

/** Bun's packages for a platform, the more likely one first. On Linux the C library decides which one runs. */
export function packagesOf(platform, arch) {
  const name = `@oven/bun-${platform}-${arch === 'arm64' ? 'aarch64' : arch}`
  return platform === 'linux' ? [name, `${name}-musl`] : [name]
}

/**
 * npm compares a tarball with the hash in its lockfile. This function writes a lockfile with the pinned hash and without a
 * registry.
 */
function installPackage(name, { version, integrity }) {
  const dependencies = { [name]: version }
  const packages = { '': { dependencies }, [`node_modules/${name}`]: { version, integrity } }
  writeFileSync(join(home, 'package.json'), JSON.stringify({ private: true, dependencies }))
  writeFileSync(join(home, 'package-lock.json'), JSON.stringify({ lockfileVersion: 3, packages }))
  // Install scripts may be switched off, so the set-up never uses them. `--force` also installs a musl package where npm
  // detects no musl.
  const options = [
    '--ignore-scripts',
    '--no-audit',
    '--no-fund',
    '--force',
    '--fetch-retries=1',
    '--loglevel=error',
  ]
  insisting(() => run([...npmCommand(), 'ci', `--prefix=${home}`, ...options]))
}

function installDependencies() {
  insisting(() => run([bunPath, 'install', '--frozen-lockfile']))
  writeFileSync(dependenciesStamp, dependenciesHash())
}

/** A package with a wrong hash. A retry would receive the same package from the registry. */
class WrongPackage extends Error {}

/** Runs `work`, and retries it after a pause when it fails. Throws the error of the last attempt. */
function insisting(work) {
  for (const pauseMs of PAUSES_MS) {
    try {
      return work()
    } catch (error) {
      if (error instanceof WrongPackage) throw error
      pause(pauseMs)
    }
  }
  return work()
}

const pause = (ms) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)

/** The npm that runs this process, if there is one, because the PATH may contain no npm. */
function npmCommand() {
  const running = process.env.npm_execpath ?? ''
  return basename(running) === 'npm-cli.js' ? [process.execPath, running] : ['npm']
}

function runs(binary) {
  try {
    return execFileSync(binary, ['--version'], { encoding: 'utf8' }).trim() === bunVersion()
  } catch {
    return false
  }
}

function run([command, ...args]) {
  const done = spawnSync(command, args, { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
  if (done.error?.code === 'ENOENT')
    throw new Error(`${basename(command)} was not found: install Node with npm`)
  if (done.status === 0) return
  const output = `${done.stderr ?? ''}${done.stdout ?? ''}`
  if (
    /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|ENETUNREACH|ConnectionRefused|FailedToOpenSocket/.test(output)
  ) {
    throw new Error(
      'the package registry cannot be reached: connect to the network, or point npm at a mirror',
    )
  }
  if (/EINTEGRITY/.test(output))
    throw new WrongPackage(
      'a package of the registry is not the one whose hash is pinned in .setup/bun-integrity.json: do not use this registry',
    )
  throw new Error(
    firstError(output) ?? `${basename(command)} ended with ${done.signal ?? `code ${done.status}`}`,
  )
}

const firstError = (output) =>
  output
    .split('\n')
    .map((line) => /^(?:npm (?:error|ERR!)|error:) (?!code )(.+)/.exec(line)?.[1])
    .find((message) => message)

function step(what, work) {
  const startedAt = performance.now()
  process.stderr.write(`${what} ... `)
  try {
    work()
  } catch (error) {
    process.stderr.write('failed\n')
    throw error
  }
  process.stderr.write(`${((performance.now() - startedAt) / 1000).toFixed(1)} s\n`)
}

/**
 * Acquires the lock of the set-up. A concurrent set-up waits and then finds everything done. A lock whose owner has ended is
 * taken over.
 */
function lock(path) {
  const mine = `${path}.${process.pid}`
  writeFileSync(mine, String(process.pid))
  try {
    const deadline = performance.now() + LOCK_DEADLINE_MS
    while (!tryLink(mine, path)) {
      const owner = Number(read(path))
      if (owner > 0 && !isAlive(owner)) rmSync(path, { force: true })
      else if (performance.now() > deadline)
        throw new Error(
          `set-up by process ${owner} has not finished after ${LOCK_DEADLINE_MS / 60_000} min: end it, or remove ${path}`,
        )
      else pause(50)
    }
  } finally {
    rmSync(mine, { force: true })
  }
  return () => rmSync(path, { force: true })
}

/** Creates the lock by a link. Unlike an exclusive create, a link never shows the file before its content. */
function tryLink(from, to) {
  try {
    linkSync(from, to)
    return true
  } catch (error) {
    if (error.code === 'EEXIST') return false
    throw error
  }
}

function isAlive(pid) {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error.code !== 'ESRCH'
  }
}

function read(path) {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if (error.code === 'ENOENT') return ''
    throw error
  }
}

/** Sets up this checkout, or ends the process with one line that gives the reason. */
export function setUpOrExit() {
  try {
    setUp()
  } catch (error) {
    process.stderr.write(`Sluice could not be set up: ${error.message}\n`)
    process.exit(1)
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) setUpOrExit()
