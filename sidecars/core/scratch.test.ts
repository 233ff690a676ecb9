import { afterEach, beforeEach, expect, test } from 'bun:test'
import { chmod, chown, mkdir, mkdtemp, readdir, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ASIDE_MAX, randomName, removeTree } from './scratch.ts'

let root: string
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'sluice-scratch-'))
})
afterEach(async () => {
  Bun.spawnSync(['chmod', '-R', 'u+rwx', root])
  await rm(root, { recursive: true, force: true })
})

/** A shell creates every kind of entry that hostile code may leave. Relative calls create a path longer than PATH_MAX. */
const HOSTILE = `
  mkdir -p closed/inner none/inner
  echo x > closed/inner/file; echo x > none/file
  chmod 0300 closed/inner closed; chmod 0000 none/inner none
  : > "$(printf 'not \\377 UTF-8')"; mkdir "$(printf 'directory \\376')"
  name=$(printf '%0200d' 0)
  for n in $(seq 60); do mkdir $name && cd -P $name || exit 1; done
  echo x > deep; mkdir -m 0300 last
`
const USER = 65_431
const isRoot = process.getuid?.() === 0
const REMOVE = `
  const { removeTree } = await import(${JSON.stringify(join(import.meta.dirname, 'scratch.ts'))})
  await removeTree(process.argv.at(-1))`

/** Runs a command as a user without privileges, because root may remove everything. */
function asUser(command: string[], cwd: string) {
  const through = isRoot ? ['setpriv', '--reuid', `${USER}`, '--regid', `${USER}`, '--clear-groups'] : []
  const { exitCode, stderr } = Bun.spawnSync([...through, ...command], {
    cwd,
    env: { PATH: '/usr/bin:/bin' },
    stdout: 'ignore',
    stderr: 'pipe',
  })
  return { exitCode, complaint: stderr.toString() }
}

/** Whether that user can read the checkout. */
const canBeUser =
  !isRoot || asUser(['test', '-r', join(import.meta.dirname, 'scratch.ts')], '/').exitCode === 0

test.if(canBeUser && process.platform === 'linux')(
  'an unprivileged user removes closed directories, undecodable names and chains beyond PATH_MAX',
  async () => {
    await chmod(root, 0o755)
    const tree = join(root, 'user', 'tree')
    await mkdir(tree, { recursive: true })
    if (isRoot) for (const path of [join(root, 'user'), tree]) await chown(path, USER, USER)
    expect(asUser(['sh', '-c', HOSTILE], tree)).toEqual({ exitCode: 0, complaint: '' })
    expect(asUser([process.execPath, '-e', REMOVE, tree], '/')).toEqual({ exitCode: 0, complaint: '' })
    expect(await readdir(join(root, 'user'))).toEqual([])
  },
)

test('removing a tree leaves the target of a symbolic link unchanged', async () => {
  await mkdir(join(root, 'target'), { mode: 0o500 })
  await mkdir(join(root, 'tree'))
  await symlink(join(root, 'target'), join(root, 'tree', 'link'))
  await removeTree(join(root, 'tree'))
  expect(await readdir(root)).toEqual(['target'])
  expect((await stat(join(root, 'target'))).mode & 0o777).toBe(0o500)
})

test('removing a missing directory succeeds', async () => {
  await removeTree(join(root, 'nowhere'))
})

const OPEN = `
  const { openScratch } = await import(${JSON.stringify(join(import.meta.dirname, 'scratch.ts'))})
  const say = (message, { error }) => console.error(message + ': ' + error)
  await openScratch(process.argv.at(-1), ['work'], { warn: say, error: say })`

test.if(isRoot && canBeUser)(
  'a start moves undeletable directories aside, and a later start removes them',
  async () => {
    await chmod(root, 0o755)
    await chown(root, USER, USER)
    const start = () => asUser([process.execPath, '-e', OPEN, root], '/')
    /** Creates files as an earlier start as root would leave them. */
    const leave = async () => {
      await mkdir(join(root, 'work', 'of-root'), { recursive: true })
      await writeFile(join(root, 'work', 'of-root', 'file'), '')
      await chown(join(root, 'work'), USER, USER)
    }
    await leave()
    const { exitCode, complaint } = start()
    expect([exitCode, complaint]).toEqual([0, expect.stringMatching(/moved aside.*: EACCES/)])
    expect(await readdir(join(root, 'work'))).toEqual([])
    const [aside = ''] = (await readdir(root)).filter((name) => name.startsWith('aside-'))
    expect(await readdir(join(root, aside), { recursive: true })).toHaveLength(2)

    await chown(join(root, aside, (await readdir(join(root, aside)))[0] ?? ''), USER, USER)
    expect(start()).toEqual({ exitCode: 0, complaint: '' })
    expect(await readdir(root)).toEqual(['work'])

    for (let n = 0; n < ASIDE_MAX; n++)
      await mkdir(join(root, `aside-${n}`, 'of-root', 'x'), { recursive: true })
    await leave()
    const refused = start()
    expect([refused.exitCode, refused.complaint]).toEqual([
      1,
      expect.stringContaining(`${ASIDE_MAX} directories named aside-*`),
    ])
  },
)

test('names of working directories are random', () => {
  expect(randomName()).toMatch(/^[0-9a-f]{32}$/)
  expect(randomName()).not.toBe(randomName())
})
