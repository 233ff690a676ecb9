import { readdir, readFile, readlink, symlink, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { errorCode, isMissing } from './disk-files.ts'
import { StoreUnavailable } from './port.ts'

// One process owns a disk store at a time. The lock is a symbolic link that points at its owner: made atomically with
// its content, and refused when it exists. It is never replaced, only followed by the next generation, so that two
// processes that find the same dead owner cannot both take over. The highest generation is the one that counts.

const LOCK = /^~lock\.(\d+)$/
const RELEASED = 'released'
/** Each lost race means that another process took the lock; to lose this often is to be refused. */
const ATTEMPTS = 10

/** Takes the lock of a directory, or throws StoreUnavailable naming the owner. Returns how to release it. */
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
  throw new StoreUnavailable(`the object store ${root} is being opened by another process`)
}

async function current(root: string): Promise<{ generation: number; owner: string }> {
  const generation = Math.max(0, ...(await generations(root)))
  if (generation === 0) return { generation, owner: RELEASED }
  try {
    return { generation, owner: await readlink(join(root, `~lock.${generation}`)) }
  } catch (error) {
    if (isMissing(error)) return current(root) // a later generation has just swept it away
    throw error
  }
}

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
 * A process id is used again, in containers at once: where the kernel tells, the identity adds the boot and the start
 * time of the process. A zombie is nobody.
 */
async function identityOf(pid: number): Promise<string> {
  const read = (path: string) => readFile(path, 'utf8').catch(() => '')
  const [stat, boot] = await Promise.all([read(`/proc/${pid}/stat`), read('/proc/sys/kernel/random/boot_id')])
  if (stat === '') return `${pid}`
  const [state, ...fields] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return state === 'Z' || state === 'X' ? `${pid} dead` : `${pid} ${boot.trim()} ${fields[18]}`
}
