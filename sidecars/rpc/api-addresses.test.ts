import { expect, test } from 'bun:test'
import { Code, ConnectError } from '@connectrpc/connect'
import { authorityOf, makeApiAddresses } from './api-addresses.ts'

const access = (base: string) => ({
  catalogUrl: `${base}/catalog`,
  objectsUrl: `${base}/lake/objects`,
  token: 't',
  catalogId: '',
})
const apis = makeApiAddresses(['http://API-1:80/', 'https://sluice.example/base'])

function codeOf(lake: ReturnType<typeof access>): Code | null {
  try {
    apis.checked(lake)
    return null
  } catch (error) {
    return ConnectError.from(error).code
  }
}

test('a request may choose a configured address in any spelling', () => {
  for (const base of ['http://api-1', 'http://api-1:80', 'HTTP://API-1'])
    expect(apis.checked(access(base))).toEqual(access('http://api-1'))
  expect(apis.checked(access('https://sluice.example/base'))).toEqual(access('https://sluice.example/base'))
  expect(apis.includes('http://api-1/')).toBe(true)
})

test('an address outside the configuration is refused', () => {
  for (const base of [
    '',
    'http://evil.example',
    'http://api-1:8080',
    'https://api-1',
    'http://api-1.evil.example',
    'http://api-1@evil.example',
    'https://sluice.example',
  ])
    expect([base, codeOf(access(base)), apis.includes(base)]).toEqual([base, Code.PermissionDenied, false])
})

test('catalog and object addresses must belong to the same API', () => {
  const { catalogUrl } = access('http://api-1')
  const { objectsUrl } = access('https://sluice.example/base')
  expect(codeOf({ ...access(''), catalogUrl, objectsUrl })).toBe(Code.PermissionDenied)
  expect(codeOf({ ...access('http://api-1'), objectsUrl: 'http://evil.example/lake/objects' })).toBe(
    Code.PermissionDenied,
  )
})

test('the authority is a proven catalog, else the token at its address', () => {
  const lake = access('http://api-1')
  const named = { ...lake, catalogId: 'c' }
  expect(authorityOf(named)).toBe(authorityOf({ ...named, token: 'u', catalogUrl: 'http://api-2/catalog' }))
  const all = [
    lake,
    named,
    { ...named, catalogId: 'd' },
    { ...lake, token: 'u' },
    { ...lake, token: '', catalogUrl: 'http://api-2/catalog' },
    { ...lake, catalogUrl: 'http://api-2/catalog' },
  ].map(authorityOf)
  expect(new Set(all).size).toBe(all.length)
  expect(all.join()).not.toContain('token t')
})
