import { readdir, readFile, readlink, symlink, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { errorCode, isMissing } from './disk-files.ts'
import { StoreUnavailable } from './port.ts'

// One process owns a disk store at a time. The lock is a symbolic link that names its owner: it is created atomically with its
// content, and its creation fails when it exists. A lock is never replaced; the next owner creates the next generation. So two
// processes that find the same dead owner cannot both take over. The highest generation is valid.

const LOCK = /^~lock\.(\d+)$/
const RELEASED = 'released'
/** Process id, boot id and start time. Without `/proc`, the process id alone. */
const OWNER = /^[0-9]+( |$)/
/** Each lost race means that another process took the lock. After this many, the process gives up. */
const ATTEMPTS = 10

/** Acquires the lock of a directory and returns its release function. Throws StoreUnavailable with the name of the owner. */
export async function lockDirectory(root: string): Promise<() => Promise<void>> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const held = await current(root)
    if (held.owner !== RELEASED && (await isAlive(held.owner)))
      throw new StoreUnavailable(
        `the object store ${root} is in use by process ${held.owner.split(' ')[0]}; several API processes need S3 (set S3_ENDPOINT)`,
      )
    const generation = held.generation + 1
    if (await claim(root, generation, await identityOf(process.pid)))
      return async () => {
        await claim(root, generation + 1, RELEASED)
      }
  }
  throw new StoreUnavailable(
    `another process is opening the object store ${root}: stop that process, or start this one again`,
  )
}

async function current(root: string): Promise<{ generation: number; owner: string }> {
  const generation = Math.max(0, ...(await generations(root)))
  if (generation === 0) return { generation, owner: RELEASED }
  try {
    const owner = await readlink(join(root, `~lock.${generation}`))
    if (owner !== RELEASED && !OWNER.test(owner)) throw damagedLock(root, generation)
    return { generation, owner }
  } catch (error) {
    if (isMissing(error)) return current(root) // a later generation has just removed this lock
    // The lock is no symbolic link.
    throw errorCode(error) === 'EINVAL' ? damagedLock(root, generation) : error
  }
}

const damagedLock = (root: string, generation: number) =>
  new StoreUnavailable(
    `the lock ${join(root, `~lock.${generation}`)} is damaged: check that no process uses ${root}, then remove the lock`,
  )

async function claim(root: string, generation: number, owner: string): Promise<boolean> {
  try {
    await symlink(owner, join(root, `~lock.${generation}`))
  } catch (error) {
    if (errorCode(error) === 'EEXIST') return false
    throw error
  }
  const others = await generations(root)
  const isNewest = Math.max(...others) === generation
  const obsolete = isNewest ? others.filter((other) => other < generation) : [generation]
  for (const other of obsolete)
    await unlink(join(root, `~lock.${other}`)).catch((error) => {
      if (!isMissing(error)) throw error
    })
  return isNewest
}

async function generations(root: string): Promise<number[]> {
  return (await readdir(root)).flatMap((name) => {
    const [, generation] = LOCK.exec(name) ?? []
    return generation === undefined ? [] : [Number(generation)]
  })
}

async function isAlive(owner: string): Promise<boolean> {
  const pid = Number(owner.split(' ')[0])
  try {
    process.kill(pid, 0)
  } catch (error) {
    if (errorCode(error) !== 'EPERM') return false
  }
  return (await identityOf(pid)) === owner
}

/**
 * Process ids are reused, in containers at once. If the kernel reports them, the identity includes the boot id and the start
 * time of the process. A zombie counts as dead.
 */
async function identityOf(pid: number): Promise<string> {
  const read = (path: string) => readFile(path, 'utf8').catch(() => '')
  const [stat, boot] = await Promise.all([read(`/proc/${pid}/stat`), read('/proc/sys/kernel/random/boot_id')])
  if (stat === '') return `${pid}`
  const [state, ...fields] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return state === 'Z' || state === 'X' ? `${pid} dead` : `${pid} ${boot.trim()} ${fields[18]}`
}
