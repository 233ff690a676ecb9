import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { LakeAccess } from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import type { Log } from '../core/log.ts'
import { randomName } from '../core/scratch.ts'
import type { EngineSandboxStep, ProgramSandboxStep } from '../sandbox/engine-sandbox.ts'
import type { SandboxMode } from '../sandbox/ladder.ts'
import { findPythons, type Python } from '../sandbox/python.ts'
import type { SparkAddress } from './address.ts'
import { type CatalogAccess, catalogAccess } from './catalog-access.ts'
import { CATALOG } from './dialect.ts'
import { networkProgram } from './network.ts'
import { startSail } from './sail.ts'
import { openSession, type SparkSession } from './session.ts'

// Engine `spark` of a runner: a Spark cluster, or Sail on this machine. Both speak Spark Connect.

interface SparkWork {
  lake: LakeAccess
  /** A directory of the work, for spilled rows of Sail. */
  directory: string
  /** The work has exceeded the memory of another engine, so joins must be able to spill. */
  isLarge: boolean
  /** The share of this machine for Sail. */
  share(): { memoryLimitBytes: number; threads: number }
}

export interface SparkEngines {
  /** For people, such as `Sail 0.7.2`. */
  readonly name: string
  /** Sail 0.7 cannot write a list to an Iceberg table. */
  readonly writesLists: boolean
  /** Opens a session whose catalog is the branch of the work's token. Throws SparkFault, SparkLost, and the signal's reason. */
  open(work: SparkWork, signal: AbortSignal): Promise<SparkSession>
}

/** Sessions on a cluster, each with a catalog of its own. */
const clusterEngines = (address: SparkAddress): SparkEngines => ({
  name: `Spark at ${new URL(address.url).host}`,
  writesLists: true,
  async open({ lake }, signal) {
    const access = await catalogAccess(lake, signal)
    const session = openSession(address, signal)
    try {
      await session.configure(sessionSettings(access))
      return session
    } catch (error) {
      await session.close()
      throw error
    }
  },
})

/** Source: Apache Iceberg, Spark catalogs and S3FileIO; Apache Hadoop, S3A. */
function sessionSettings(access: CatalogAccess): Record<string, string> {
  const catalog = `spark.sql.catalog.${CATALOG}`
  return {
    [catalog]: 'org.apache.iceberg.spark.SparkCatalog',
    [`${catalog}.type`]: 'rest',
    [`${catalog}.uri`]: access.uri,
    [`${catalog}.warehouse`]: access.warehouse,
    [`${catalog}.token`]: access.token,
    [`${catalog}.io-impl`]: 'org.apache.iceberg.aws.s3.S3FileIO',
    [`${catalog}.s3.endpoint`]: access.endpoint,
    [`${catalog}.s3.path-style-access`]: 'true',
    [`${catalog}.s3.access-key-id`]: access.accessKeyId,
    [`${catalog}.s3.secret-access-key`]: access.secretAccessKey,
    [`${catalog}.s3.session-token`]: access.sessionToken,
    [`${catalog}.client.region`]: access.region,
    // A statement reads the branch as it is now.
    [`${catalog}.cache-enabled`]: 'false',
    'spark.sql.session.timeZone': 'UTC',
    'spark.sql.sources.partitionOverwriteMode': 'static',
    // Landing files. A file system of another session would have other credentials.
    'fs.s3a.impl.disable.cache': 'true',
    'fs.s3a.endpoint': access.endpoint,
    'fs.s3a.endpoint.region': access.region,
    'fs.s3a.path.style.access': 'true',
    'fs.s3a.connection.ssl.enabled': String(access.endpoint.startsWith('https:')),
    'fs.s3a.aws.credentials.provider': 'org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider',
    'fs.s3a.access.key': access.accessKeyId,
    'fs.s3a.secret.key': access.secretAccessKey,
    'fs.s3a.session.token': access.sessionToken,
  }
}

interface LocalSail {
  python: Python
  sandbox: ProgramSandboxStep
  /** The program that makes a network for Sail alone; null: Sail listens on a port of this machine. */
  networkProgram: string | null
  /** Bytes of spilled rows of one run. */
  spillBytes: number
}

/** A Sail process for each session. */
const sailEngines = ({ python, sandbox, networkProgram, spillBytes }: LocalSail): SparkEngines => ({
  name: `Sail ${python.sail}`,
  writesLists: false,
  async open({ lake, directory, isLarge, share }, signal) {
    const own = join(directory, `sail-${randomName()}`)
    await mkdir(own)
    const { memoryLimitBytes: memoryBytes, threads } = share()
    // Sail is on this machine, so it uses the address of the API that the runner itself uses.
    const { origin } = new URL(lake.catalogUrl)
    const access = {
      ...(await catalogAccess(lake, signal)),
      uri: `${origin}/iceberg`,
      endpoint: `${origin}/s3`,
    }
    const options = {
      python,
      sandbox,
      networkProgram,
      directory: own,
      access,
      memoryBytes,
      threads,
      spillBytes,
      isLarge,
    }
    const server = await startSail(options, signal)
    const lost = new AbortController()
    server.ended.catch((error) => lost.abort(error))
    const session = openSession(
      { url: server.url, token: null, userId: 'sluice' },
      AbortSignal.any([signal, lost.signal]),
      server.socket,
    )
    return { ...session, cost: server.cost, close: server.stop }
  },
})

/** The settings of a runner about engine `spark`. */
interface SparkSettings {
  /** The configured cluster; null: none. */
  spark: SparkAddress | null
  python: { bin: string | null }
  sandbox: SandboxMode
  /** `tempLimitBytes` limits the spilled rows of a run. */
  engine: { tempLimitBytes: number }
}

/**
 * Engine `spark` of this machine: the configured cluster, or Sail if the Python of pipelines has it. Null: none. Without Landlock,
 * SQL of users could read all files of this machine through Sail. Without a network of its own, other users of this machine could
 * use the port of Sail. Then only `SANDBOX=off` allows Sail.
 */
export async function findSpark(
  { spark, python: { bin }, sandbox, engine }: SparkSettings,
  step: EngineSandboxStep,
  log: Log,
): Promise<SparkEngines | null> {
  const engines = spark === null ? await findSail() : clusterEngines(spark)
  if (engines !== null) log.info(`engine spark: ${engines.name}`)
  return engines

  async function findSail(): Promise<SparkEngines | null> {
    const { pythons } = await findPythons(bin)
    const python = pythons.find(({ sail }) => sail !== null)
    if (python === undefined) return null
    const spillBytes = engine.tempLimitBytes
    if (sandbox === 'off') return sailEngines({ python, sandbox: 'none', networkProgram: null, spillBytes })
    if (step !== 'landlock') {
      log.warn('Sail is not used: this machine has no Landlock, which keeps its files from SQL of users')
      return null
    }
    const program = networkProgram()
    if (program !== null)
      return sailEngines({ python, sandbox: 'landlock', networkProgram: program, spillBytes })
    log.warn(
      'Sail is not used: bubblewrap cannot make a network here, which keeps the port of Sail from other users',
    )
    return null
  }
}
