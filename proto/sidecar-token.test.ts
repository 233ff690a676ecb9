import { expect, test } from 'bun:test'
import { isSidecarToken, makeTokenCheck } from './sidecar-token.ts'

const TOKEN = '0123456789abcdef0123456789abcdef'

test('a token has 32 to 1024 printable characters without spaces', () => {
  for (const text of [TOKEN, 'x'.repeat(1_024)]) expect([text, isSidecarToken(text)]).toEqual([text, true])
  for (const text of ['', TOKEN.slice(1), `${TOKEN} `, `${TOKEN}\n`, `${TOKEN}é`, 'x'.repeat(1_025)])
    expect([text, isSidecarToken(text)]).toEqual([text, false])
})

test('only a bearer header with the exact token is accepted', () => {
  const passes = makeTokenCheck(TOKEN)
  expect(passes(`Bearer ${TOKEN}`)).toBe(true)
  for (const header of [
    null,
    undefined,
    '',
    'Bearer',
    'Bearer ',
    TOKEN,
    `Basic ${TOKEN}`,
    `Bearer ${TOKEN}0`,
    `Bearer ${TOKEN.slice(1)}`,
    `Bearer ${TOKEN.toUpperCase()}`,
    `Bearer ${TOKEN}, Bearer ${TOKEN}`,
  ])
    expect([header, passes(header)]).toEqual([header, false])
})
