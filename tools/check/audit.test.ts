import { expect, test } from 'bun:test'
import { inexactOf, licencesOf, mayUse, parseLock, scriptsOf, strangersOf, unlockedOf } from './audit.ts'

const SHA = `sha512-${'A'.repeat(86)}==`
const installed = (more: object = {}) => ({
  name: 'a',
  version: '1.0.0',
  folder: 'node_modules/a',
  licence: 'MIT',
  scripts: [],
  isDeprecated: false,
  ...more,
})

test('a dependency without an exact version is reported', () => {
  const wanted = (version: string) => inexactOf({ dependencies: { a: version }, devDependencies: {} })
  expect([wanted('1.2.3'), wanted('1.2.3-beta.1')]).toEqual([[], []])
  for (const loose of [
    '^1.2.3',
    '~1.2.3',
    '1.x',
    '*',
    'latest',
    'github:a/b',
    'https://a.test/a.tgz',
    'file:../a',
  ])
    expect(wanted(loose)).toHaveLength(1)
})

test('a locked package from another source or without hash is reported', () => {
  const lock = (...entry: unknown[]) =>
    unlockedOf(parseLock(`{"packages": {"a": ${JSON.stringify(entry)},},}`))
  expect(lock('@a/b@1.0.0', '', {}, SHA)).toEqual([])
  expect(lock('a@1.0.0', '', {}, '')).toHaveLength(1)
  expect(lock('a@1.0.0', '', {}, 'sha1-abc=')).toHaveLength(1)
  expect(lock('a@1.0.0', 'https://elsewhere.test/', {}, SHA)).toHaveLength(1)
  expect(lock('a@git+ssh://git@a.test/a', '', {}, SHA)).toHaveLength(1)
})

test('unlocked packages, install scripts and missing licences are reported', () => {
  const lock = { packages: { a: ['a@1.0.0', '', {}, SHA] } }
  expect(strangersOf([installed()], lock)).toEqual([])
  expect(strangersOf([installed({ version: '1.0.1' })], lock)).toEqual(['a@1.0.1'])
  expect(scriptsOf([installed({ name: 'esbuild', scripts: ['postinstall'] })], {})).toEqual([])
  expect(scriptsOf([installed({ name: 'esbuild-evil', scripts: ['postinstall'] })], {})).toHaveLength(1)
  expect(scriptsOf([], { trustedDependencies: ['a'] })).toHaveLength(1)
  expect(licencesOf([installed()])).toEqual([])
  expect(licencesOf([installed({ licence: '' })])).toHaveLength(1)
})

test('a choice of licences needs one permitted licence, a combination all', () => {
  for (const good of ['MIT', '(MIT OR CC0-1.0)', 'MIT OR GPL-3.0-only', '(Apache-2.0 AND BSD-3-Clause)'])
    expect([good, mayUse(good)]).toEqual([good, true])
  for (const bad of ['GPL-3.0-only', 'MIT AND GPL-3.0-only', 'UNLICENSED', 'SEE LICENSE IN x', ''])
    expect([bad, mayUse(bad)]).toEqual([bad, false])
})
