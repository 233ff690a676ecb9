import { expect, test } from 'bun:test'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { testDirectory } from '../../tools/kit/directory.ts'
import { availableBytes, readMachine } from './machine.ts'

const MIB = 1_048_576
const machine = { cores: 16, memoryBytes: 64 * 1_024 * MIB }

function placesWith(files: Record<string, string>) {
  const directory = testDirectory()
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(directory, name)), { recursive: true })
    writeFileSync(join(directory, name), `${text}\n`)
  }
  return { proc: join(directory, 'proc'), cgroups: join(directory, 'cgroup') }
}

test('a process without cgroup v2 has the whole machine', () => {
  expect(readMachine(placesWith({}), machine)).toEqual(machine)
  expect(readMachine(placesWith({ 'proc/self/cgroup': '4:memory:/a' }), machine)).toEqual(machine)
  expect(availableBytes(placesWith({}))).toBe(Number.POSITIVE_INFINITY)
})

test('the smallest limit of all parents applies', () => {
  const places = placesWith({
    'proc/self/cgroup': '0::/kube/pod/container',
    'cgroup/kube/memory.max': String(8_192 * MIB),
    'cgroup/kube/pod/memory.max': String(2_048 * MIB),
    'cgroup/kube/pod/container/memory.max': 'max',
    'cgroup/kube/pod/cpu.max': '350000 100000',
    'cgroup/kube/pod/container/cpu.max': 'max 100000',
  })
  expect(readMachine(places, machine)).toEqual({ cores: 3, memoryBytes: 2_048 * MIB })
})

test('a container at the root of its hierarchy reads the root', () => {
  const places = placesWith({
    'proc/self/cgroup': '0::/',
    'cgroup/memory.max': String(512 * MIB),
    'cgroup/cpu.max': '50000 100000',
  })
  expect(readMachine(places, machine)).toEqual({ cores: 1, memoryBytes: 512 * MIB })
})

test('available memory is what the machine and the group have left', () => {
  const group = {
    'proc/self/cgroup': '0::/app',
    'cgroup/app/memory.max': String(1_000 * MIB),
    'cgroup/app/memory.current': String(900 * MIB),
    'cgroup/app/memory.stat': `anon 1\ninactive_file ${300 * MIB}`,
  }
  const meminfo = (megabytes: number) => ({
    'proc/meminfo': `MemTotal: 1 kB\nMemAvailable:   ${megabytes * 1_024} kB`,
  })
  expect(availableBytes(placesWith({ ...group, ...meminfo(5_000) }))).toBe(400 * MIB)
  expect(availableBytes(placesWith({ ...group, ...meminfo(200) }))).toBe(200 * MIB)
})
