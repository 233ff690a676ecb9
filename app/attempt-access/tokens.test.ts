import { expect, test } from 'bun:test'
import { makeTokens } from './tokens.ts'

const now = new Date('2026-01-01T00:00:00Z')
const expiresAt = new Date(now.getTime() + 60_000)
const tokens = makeTokens('a secret', 's3://sluice/')
const attempt = {
  branch: 'run-1-1',
  runId: '01890000-0000-7000-8000-000000000001',
  attempt: 1,
  target: { namespace: 'default', layer: 'gold', name: 'routes' },
  expiresAt,
} as const

test('a verified token returns the claims from its creation', () => {
  expect(tokens.verify(tokens.attempt(attempt), now)).toEqual({
    kind: 'attempt',
    ...attempt,
    expiresAt: expiresAt.getTime(),
  })
  expect(tokens.verify(tokens.read({ commit: 7, expiresAt }), now)).toEqual({
    kind: 'read',
    commit: 7,
    expiresAt: expiresAt.getTime(),
  })
})

test('a token is invalid from its expiry time on', () => {
  const token = tokens.read({ commit: 7, expiresAt })
  expect(tokens.verify(token, new Date(expiresAt.getTime() - 1))).not.toBeNull()
  expect(tokens.verify(token, expiresAt)).toBeNull()
})

test('a token signed with another secret is refused', () => {
  expect(makeTokens('another', 's3://sluice/').verify(tokens.attempt(attempt), now)).toBeNull()
})

test('a token with any single altered character is refused', () => {
  const token = tokens.read({ commit: 7, expiresAt })
  const signatureStart = token.indexOf('.') + 1
  for (let at = 0; at < token.length; at++) {
    // The last base64url character without padding contains ignored bits.
    if (at === token.length - 1 || at === signatureStart - 1) continue
    const altered = token.slice(0, at) + (token[at] === 'A' ? 'B' : 'A') + token.slice(at + 1)
    expect(tokens.verify(altered, now)).toBeNull()
  }
})

test('a malformed token is refused', () => {
  for (const text of ['', '.', '..', 'a.b', 'a.b.c', `${'x'.repeat(1_000_000)}.y`, '\0', 'é.é'])
    expect(tokens.verify(text, now)).toBeNull()
})
