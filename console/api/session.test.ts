import { expect, test } from 'bun:test'
import { callerOf, credentialHeaders } from './session.ts'

const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
const tokenWith = (claims: unknown) => `${part({ alg: 'RS256' })}.${part(claims)}.c2ln`

test('a token names its person, and a key names nobody', () => {
  expect(callerOf(null)).toBeNull()
  expect(callerOf('a-key-0123456789')).toEqual({ id: '', name: 'API key' })
  expect(callerOf(tokenWith({ sub: 'ann', name: 'Ann Müller ✓' }))).toEqual({
    id: 'ann',
    name: 'Ann Müller ✓',
  })
  expect(callerOf(tokenWith({ sub: 'ann', name: 7, email: 'ann@a.test' }))?.name).toBe('ann@a.test')
  expect(callerOf(tokenWith({ sub: 'ann' }))?.name).toBe('ann')
})

test('a damaged token names nobody', () => {
  for (const claims of [null, 'ann', ['ann'], { sub: 7 }])
    expect(callerOf(tokenWith(claims))).toEqual({ id: '', name: 'API key' })
  expect(callerOf('eyJhbGciOiJSUzI1NiJ9.bm8ganNvbg.c2ln')).toEqual({ id: '', name: 'API key' })
})

test('a token is sent as a bearer token, another text as a key', () => {
  const token = tokenWith({ sub: 'ann' })
  expect(credentialHeaders(token)).toEqual({ authorization: `Bearer ${token}` })
  expect(credentialHeaders('a-key-0123456789')).toEqual({ 'x-api-key': 'a-key-0123456789' })
  expect(credentialHeaders(null)).toEqual({})
})
