import { expect, test } from 'bun:test'
import { SettingsError } from '../settings.ts'
import { parseSettings } from './settings.ts'

const GIB = 1_073_741_824
const machine = { cores: 4, memoryBytes: 8 * GIB }

test('without settings an engine takes its share of the machine', () => {
  expect(parseSettings({ SCRATCH_DIR: '/scratch' }, machine)).toEqual({
    host: '127.0.0.1',
    port: 8082,
    grpcPort: 0,
    scratchDir: '/scratch',
    lakeDir: null,
    concurrency: 4,
    engine: { memoryLimitBytes: GIB / 2, tempLimitBytes: 4 * GIB, threads: 3 },
    logFormat: 'text',
    sandbox: 'auto',
  })
})

test('every bad name is told at once', () => {
  const env = { PORT: '70000', QUERY_CONCURRENCY: '0', QUERY_THREADS: 'many', QUERY_MEMORY_LIMIT: '1' }
  expect(() => parseSettings(env, machine)).toThrow(SettingsError)
  for (const name of [...Object.keys(env), 'SCRATCH_DIR'])
    expect(() => parseSettings(env, machine)).toThrow(name)
})

test('native gRPC has a port of its own, or none', () => {
  const grpcPortOf = (value: string) =>
    parseSettings({ SCRATCH_DIR: '/scratch', QUERY_GRPC_PORT: value }, machine).grpcPort
  expect([grpcPortOf('50051'), grpcPortOf('none'), grpcPortOf('')]).toEqual([50051, null, 0])
  expect(() => grpcPortOf('65536')).toThrow('QUERY_GRPC_PORT must be a whole number from 0 to 65535')
})
