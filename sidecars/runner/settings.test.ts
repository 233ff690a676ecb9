import { expect, test } from 'bun:test'
import { TEST_TOKEN } from '../rpc/testing.ts'
import { parseSettings } from './settings.ts'

const NEEDED = { SCRATCH_DIR: '/scratch', SIDECAR_TOKEN: TEST_TOKEN }
const GIB = 1_073_741_824
const machine = { cores: 8, memoryBytes: 64 * GIB }

test('only a scratch directory and the token are required', () => {
  expect(parseSettings(NEEDED, machine)).toEqual({
    host: '127.0.0.1',
    port: 8081,
    grpcPort: 0,
    token: TEST_TOKEN,
    otherHosts: [],
    apiUrls: ['http://127.0.0.1:8080'],
    scratchDir: '/scratch',
    objectCache: { directory: '/scratch/objects', maxBytes: 4 * GIB },
    lakeDir: null,
    concurrency: 4,
    engine: { memoryLimitBytes: GIB, tempLimitBytes: 16 * GIB, threads: 2 },
    total: { memoryBytes: Math.floor(machine.memoryBytes * 0.6), threads: 8 },
    logFormat: 'text',
    tracing: null,
    runSeconds: 21_600,
    outputBytes: 64 * GIB,
    floorBytes: null,
    labels: [],
    spark: null,
    autoSpillBytes: null,
    sandbox: 'auto',
    python: {
      bin: null,
      memoryBytes: 2 * GIB,
      disk: { inMemory: Math.floor((machine.memoryBytes * 0.1) / 4), onDisk: 8 * GIB },
      seconds: 3_600,
      cpuSeconds: 3_605,
    },
  })
})

test('Python gets a part of the memory and its configured time', () => {
  const env = {
    ...NEEDED,
    PYTHON_TIMEOUT: '60',
    PYTHON_BIN: '/opt/python3',
    SANDBOX: 'required',
  }
  expect(parseSettings(env, { cores: 1, memoryBytes: 8 * GIB })).toMatchObject({
    sandbox: 'required',
    python: { bin: '/opt/python3', memoryBytes: GIB / 2, seconds: 60, cpuSeconds: 65 },
  })
  expect(() => parseSettings({ ...NEEDED, SANDBOX: 'yes' }, machine)).toThrow(
    'SANDBOX must be one of auto, required, off',
  )
})

test('the disk limit of Python is PYTHON_DISK_LIMIT, or depends on the location', () => {
  const diskOf = (env: Record<string, string>, memoryBytes: number) =>
    parseSettings({ ...NEEDED, ...env }, { cores: 1, memoryBytes }).python.disk
  expect(diskOf({ PYTHON_DISK_LIMIT: '3GB' }, GIB)).toEqual({ inMemory: 3 * GIB, onDisk: 3 * GIB })
  expect(diskOf({}, GIB)).toEqual({ inMemory: GIB / 16, onDisk: 8 * GIB })
  expect(diskOf({ RUNNER_CONCURRENCY: '1' }, 1_024 * GIB)).toEqual({ inMemory: 8 * GIB, onDisk: 8 * GIB })
})

test('engines share the threads and a part of the memory', () => {
  const env = { ...NEEDED, RUNNER_CONCURRENCY: '2' }
  expect(parseSettings({ ...env, ENGINE_THREADS: '6' }, machine).engine.threads).toBe(3)
  expect(parseSettings(env, { cores: 1, memoryBytes: GIB }).engine).toMatchObject({
    threads: 1,
    memoryLimitBytes: Math.floor(0.3 * GIB),
  })
  expect(parseSettings({ ...env, ENGINE_MEMORY_LIMIT: '1.5GB' }, machine).engine.memoryLimitBytes).toBe(
    1.5 * GIB,
  )
})

test('a memory limit for one run is fixed, also for a run alone', () => {
  const env = { ...NEEDED, RUNNER_CONCURRENCY: '2', ENGINE_MEMORY_LIMIT: '1.5GB', ENGINE_THREADS: '6' }
  expect(parseSettings(env, machine).total).toEqual({ memoryBytes: 3 * GIB, threads: 6 })
})

test('every invalid variable is listed', () => {
  const sizes = { ENGINE_MEMORY_LIMIT: 'lots', ENGINE_TEMP_LIMIT: '0MB' }
  const env = { PORT: 'x', RUNNER_GRPC_PORT: '65536', RUNNER_CONCURRENCY: '0', ...sizes }
  expect(() => parseSettings(env, machine)).toThrow(
    /^invalid configuration: RUNNER_CONCURRENCY .*; ENGINE_MEMORY_LIMIT .*; ENGINE_TEMP_LIMIT .*; SIDECAR_TOKEN .*; SCRATCH_DIR .*; PORT .*; RUNNER_GRPC_PORT /,
  )
})
