import { expect, test } from 'bun:test'
import { constantValue } from './numbers.ts'

test.each([
  ['const PAGE_MAX = 10_000', 'PAGE_MAX', 10_000],
  ['const KIB = 1_024\nexport const BODY_BYTES: number = 4 * KIB', 'BODY_BYTES', 4_096],
  ['const limits = {\n  linesKept: 250,\n  logBytes: 8 * MIB,\n}', 'logBytes', 8_388_608],
  ['const TAGS: SharedLimit = { limit: 1_000, remedy: "none" }', 'TAGS', 1_000],
  [`  maxVersions: pg.integer('max_versions').notNull().default(50),`, 'maxVersions', 50],
])('reads the value of a constant: %s', (source, name, value) => {
  expect(constantValue(name, source)).toBe(value)
})

test('a constant that has gone is an error', () => {
  expect(() => constantValue('GONE', 'const HERE = 1')).toThrow('no constant GONE')
})
