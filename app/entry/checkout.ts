// Reads the commit of a git checkout from its files, because the host may not have git.
import { readFileSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Config } from '../config/config.ts'

interface Checkout {
  commit: string
  /** Time of the commit or of the checkout in this directory; ISO 8601. */
  time: string
}

type Build = Pick<Config, 'gitCommit' | 'buildTime'>

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const UNKNOWN = 'unknown'

/** Adds the commit and time of this checkout to the configuration, unless the environment names a build. */
export function withCheckout<C extends Build>(config: C, root = ROOT): C {
  if (config.gitCommit !== UNKNOWN) return config
  const checkout = checkoutIn(root)
  if (checkout === null) return config
  const buildTime = config.buildTime === UNKNOWN ? checkout.time : config.buildTime
  return { ...config, gitCommit: checkout.commit, buildTime }
}

/** The checkout in a directory; null when none is readable. */
export function checkoutIn(root: string): Checkout | null {
  try {
    const directory = gitDirectory(root)
    const commit = commitIn(directory)
    return commit === null ? null : { commit, time: timeOf(commit, directory) }
  } catch {
    return null
  }
}

/** The git directory. In a worktree, `.git` is a file that names the directory. */
function gitDirectory(root: string): string {
  const path = join(root, '.git')
  if (statSync(path).isDirectory()) return path
  const [, named] = /^gitdir: (.+)$/m.exec(readFileSync(path, 'utf8')) ?? []
  if (named === undefined) throw new Error(`${path} does not name a git directory`)
  return resolve(root, named)
}

const COMMIT = /^[0-9a-f]{40}(?:[0-9a-f]{24})?$/

function commitIn(directory: string): string | null {
  const head = readFileSync(join(directory, 'HEAD'), 'utf8').trim()
  if (COMMIT.test(head)) return head
  const [, ref] = /^ref: (refs\/\S+)$/.exec(head) ?? []
  if (ref === undefined) return null
  // A worktree shares its branches with the main checkout; `commondir` names the shared directory.
  const shared = textOf(join(directory, 'commondir'))
  const common = shared === null ? directory : resolve(directory, shared.trim())
  const loose = textOf(join(common, ref))?.trim()
  if (loose !== undefined) return COMMIT.test(loose) ? loose : null
  const packed = (textOf(join(common, 'packed-refs')) ?? '').split('\n').map((line) => line.split(' '))
  const [found] = packed.find(([, name]) => name === ref) ?? []
  return found !== undefined && COMMIT.test(found) ? found : null
}

/**
 * Time from the last line of the HEAD log: `old new name <mail> seconds zone`, a tab and the reason. The fallback is the age of
 * HEAD.
 */
function timeOf(commit: string, directory: string): string {
  const last = (textOf(join(directory, 'logs', 'HEAD')) ?? '').trimEnd().split('\n').at(-1) ?? ''
  const [, next, seconds] = /^\S+ (\S+) [^\t]*> (\d+) [+-]\d{4}(?:\t|$)/.exec(last) ?? []
  if (next === commit) return new Date(Number(seconds) * 1_000).toISOString()
  return statSync(join(directory, 'HEAD')).mtime.toISOString()
}

function textOf(path: string): string | null {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return null
  }
}
