import { existsSync } from 'node:fs'

// Finds the Python interpreters of this machine. The service brings no Python, and executes no Python pipelines on a machine
// without one.

export interface Python {
  /** The interpreter itself, not a script that chooses an interpreter. */
  executable: string
  /** The full version, such as `3.11.7`. */
  version: string
  /** The version of Sail (package pysail); null: not installed. */
  sail: string | null
  /** Absolute paths that the interpreter reads to start and to import, including its shared libraries. */
  readable: string[]
}

const OLDEST = '3.9'
const ASK_MS = 20_000
/** System directories that many programs share. The sandbox shows only the parts of them that a library needs. */
const SHARED_PREFIXES = ['/', '/usr', '/usr/local']

/** A program that describes its interpreter. It needs no sandbox, because it contains no code of users. */
const QUESTION = `
import json, os, sys, sysconfig
if sys.version_info < (3, 9): sys.exit("found Python %d.%d" % sys.version_info[:2])
import ctypes, decimal, datetime, uuid, zoneinfo, importlib.metadata
paths = [sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix] + sys.path
paths += [sysconfig.get_config_var("LIBDIR") or "", os.path.realpath(sys.executable)]
try:
    maps = open("/proc/self/maps").read().split("\\n")
    paths += [os.path.dirname(line.split(None, 5)[5]) for line in maps if ".so" in line]
except OSError: pass
try: sail = importlib.metadata.version("pysail")
except importlib.metadata.PackageNotFoundError: sail = None
print(json.dumps({"executable": sys.executable, "version": sys.version.split()[0], "sail": sail, "paths": [p for p in paths if os.path.isabs(p)]}))
`

/**
 * Returns the interpreters that can run pipelines, in order of preference, and the reasons why others cannot. `named` is the
 * interpreter of the configuration, and excludes all others.
 */
export async function findPythons(named: string | null): Promise<{ pythons: Python[]; reasons: string[] }> {
  const names = named === null ? ['python3', '/usr/bin/python3', '/usr/local/bin/python3'] : [named]
  const candidates = names.flatMap((name) => (name.includes('/') ? name : (Bun.which(name) ?? [])))
  const present = [...new Set(candidates)].filter((path) => existsSync(path))
  if (present.length === 0)
    return {
      pythons: [],
      reasons: [
        named === null
          ? 'no python3 was found on this machine'
          : `PYTHON_BIN: there is no ${named} on this machine`,
      ],
    }
  const candidateResults = await Promise.all(present.map(describe))
  const byExecutable = new Map<string, Python>()
  const reasons: string[] = []
  for (const answer of candidateResults)
    if (typeof answer === 'string') reasons.push(answer)
    else if (!byExecutable.has(answer.executable)) byExecutable.set(answer.executable, answer)
  return { pythons: [...byExecutable.values()], reasons }
}

async function describe(path: string): Promise<Python | string> {
  const child = Bun.spawn([path, '-I', '-B', '-c', QUESTION], {
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
    timeout: ASK_MS,
    killSignal: 'SIGKILL',
  })
  const [output, errorOutput, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  if (code !== 0)
    return `${path} cannot run pipelines: Python ${OLDEST} or newer with its standard library is required (${errorOutput.trim().split('\n').at(-1)})`
  const { executable, version, sail, paths } = JSON.parse(output) as {
    executable: string
    version: string
    sail: string | null
    paths: string[]
  }
  return { executable, version, sail, readable: withoutNested([...paths, ...SYSTEM_PATHS]) }
}

const SYSTEM_PATHS = [
  '/lib',
  '/lib64',
  '/usr/lib',
  '/usr/lib64',
  '/usr/local/lib',
  '/usr/share/zoneinfo',
  '/etc/ld.so.cache',
  '/etc/localtime',
  '/etc/mime.types',
]

function withoutNested(paths: readonly string[]): string[] {
  const wanted = [...new Set(paths)]
    .filter((path) => !SHARED_PREFIXES.includes(path) && existsSync(path))
    .sort()
  return wanted.filter((path) => !wanted.some((other) => other !== path && path.startsWith(`${other}/`)))
}
