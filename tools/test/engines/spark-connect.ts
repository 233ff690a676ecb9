/** A Spark Connect server, as an operator starts it for Sluice (docs/engines.md). */
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { eachLine } from '../../../sidecars/supervisor/lines.ts'
import { freePort } from '../../../sidecars/supervisor/ports.ts'
import { endWith } from '../../kit/scratch.ts'

const START_LIMIT_MS = 120_000
const KEPT_LINES = 60
const EXTENSIONS = 'org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions'

export interface SparkConnect {
  /** For SPARK_REMOTE. */
  remote: string
  log(): string
  kill(signal: NodeJS.Signals): void
  stop(): Promise<void>
}

/** Starts the server of the package pyspark. `jars`: the Iceberg runtime, its bundle for S3, and Hadoop's S3A. */
export async function startSparkConnect(python: string, jars: readonly string[]): Promise<SparkConnect> {
  const port = await freePort()
  const directory = await mkdtemp(join(tmpdir(), 'sluice-spark-'))
  const settings = {
    'spark.connect.grpc.binding.address': '127.0.0.1',
    'spark.connect.grpc.binding.port': String(port),
    'spark.driver.host': '127.0.0.1',
    'spark.driver.bindAddress': '127.0.0.1',
    'spark.driver.memory': '2g',
    'spark.ui.enabled': 'false',
    'spark.sql.extensions': EXTENSIONS,
    'spark.sql.shuffle.partitions': '2',
    'spark.sql.warehouse.dir': directory,
    'spark.driver.extraClassPath': jars.join(':'),
  }
  const submit = join(python, '..', 'spark-submit')
  const child = Bun.spawn(
    [
      submit,
      ...Object.entries(settings).flatMap(([name, value]) => ['--conf', `${name}=${value}`]),
      ...['--master', 'local[2]', '--class', 'org.apache.spark.sql.connect.service.SparkConnectServer'],
      'spark-internal',
    ],
    {
      cwd: directory,
      env: { ...process.env, PYSPARK_PYTHON: python, SPARK_LOCAL_IP: '127.0.0.1' },
      detached: true,
      stdin: 'ignore',
      stdout: 'pipe',
      stderr: 'pipe',
    },
  )
  const lines: string[] = []
  const listening = Promise.withResolvers<boolean>()
  const collect = (line: string) => {
    lines.push(line)
    if (lines.length > KEPT_LINES) lines.shift()
    if (line.includes('Spark Connect server started')) listening.resolve(true)
  }
  void eachLine(child.stdout, collect)
  void eachLine(child.stderr, collect)
  const kill = (signal: NodeJS.Signals) => process.kill(-child.pid, signal)
  const stop = async () => {
    cancel()
    if (child.exitCode === null && child.signalCode === null) kill('SIGKILL')
    await child.exited
  }
  const cancel = endWith(stop)
  const limit = setTimeout(() => listening.resolve(false), START_LIMIT_MS)
  const isListening = await Promise.race([listening.promise, child.exited.then(() => false)])
  clearTimeout(limit)
  const log = () => lines.join('\n')
  if (!isListening) {
    await stop()
    throw new Error(`Spark did not start\n${log()}`)
  }
  return { remote: `sc://127.0.0.1:${port}`, log, kill, stop }
}
