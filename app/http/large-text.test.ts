import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { AppError } from '../core/errors.ts'
import { takeOut } from './large-text.ts'

const LARGE = 'x'.repeat(70_000)
const bytesOf = (text: string) => new TextEncoder().encode(text)
const taken = (body: string | Uint8Array) =>
  takeOut(typeof body === 'string' ? bytesOf(body) : body, 'content')
const textOf = (body: string) => new TextDecoder('utf-8', { ignoreBOM: true }).decode(taken(body)?.text)
const refusalOf = (body: string | Uint8Array) => {
  try {
    return taken(body) === null ? 'nothing is taken out' : 'no refusal'
  } catch (error) {
    return error instanceof AppError ? `${error.status} ${error.message}` : String(error)
  }
}

describe('a large text', () => {
  test('is what a parser of JSON makes of it, however it is written', () => {
    const hex = (unit: number) => unit.toString(16).padStart(4, '0')
    const escaped = (text: string) =>
      [...Array(text.length).keys()].map((at) => `\\u${hex(text.charCodeAt(at))}`).join('')
    const piece = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 20 }).filter((text) => !text.includes('\0')),
      fc.constantFrom('"', '\\', '\n', '\t', '/', '}', '😀', 'é', '\uFEFF', '\u2028', '\\"', '"}', '\\\\'),
    )
    fc.assert(
      fc.property(
        fc.array(fc.tuple(piece, fc.boolean()), { maxLength: 30 }),
        fc.record({ before: fc.json({ maxDepth: 2 }), space: fc.constantFrom('', ' ', '\r\n\t') }),
        (pieces, { before, space }) => {
          const written = pieces
            .map(([text, isEscaped]) => (isEscaped ? escaped(text) : JSON.stringify(text).slice(1, -1)))
            .join('')
          const body = `{"before":${before},${space}"content"${space}:${space}"${LARGE}${written}"${space},"after":["content",{}]}`
          const { rest, text } = taken(body) ?? { rest: '', text: new Uint8Array() }
          const whole = JSON.parse(body)
          expect(new TextDecoder('utf-8', { ignoreBOM: true }).decode(text)).toBe(whole.content)
          expect(JSON.parse(rest)).toEqual({ ...whole, content: '' })
        },
      ),
      { numRuns: 100 },
    )
  })

  test('takes the bytes that it has in the body, and no more', () => {
    const body = bytesOf(`{"content":"${LARGE}"}`)
    expect(takeOut(body, 'content')?.text.buffer).toBe(body.buffer)
  })

  test('is refused where JSON has no such text, by what is wrong', () => {
    const wrong: Record<string, string> = {
      '\\x': '400 body: is not valid JSON',
      '\\u12g4': '400 body: is not valid JSON',
      '\\u12': '400 body: is not valid JSON',
      '\n': '400 body: is not valid JSON',
      '\\u0000': '400 content: must not contain a NUL character',
      '\\ud800': '400 content: must be valid Unicode',
      '\\ud800\\u0041': '400 content: must be valid Unicode',
      '\\udc00': '400 content: must be valid Unicode',
    }
    for (const [text, refusal] of Object.entries(wrong))
      for (const body of [`{"content":"${LARGE}${text}"}`, `{"content":"${text}${LARGE}"}`])
        expect([text, refusalOf(body)]).toEqual([text, refusal])
  })

  test('is refused where it is not UTF-8', () => {
    for (const bad of [[0xff], [0xc3], [0xed, 0xa0, 0x80], [0xc3, 0x5c, 0x6e]]) {
      const body = Buffer.concat([bytesOf(`{"content":"${LARGE}`), Buffer.from(bad), bytesOf('"}')])
      expect(refusalOf(body)).toBe('400 body: is not valid UTF-8')
    }
  })

  test('stays where it is when it is not the one field of that name, or there is more beside it', () => {
    const stay = 'nothing is taken out'
    expect(refusalOf(`{"content":"short"}`)).toBe(stay)
    expect(refusalOf(`{"content":"${LARGE}","content":"${LARGE}"}`)).toBe(stay)
    expect(refusalOf(`{"content":"${LARGE}","content":"again"}`)).toBe(stay)
    expect(refusalOf(`{"content":"${LARGE}","\\u0063ontent":"again"}`)).toBe(stay)
    expect(refusalOf(`{"inner":{"content":"${LARGE}"}}`)).toBe(stay)
    expect(refusalOf(`["content","${LARGE}"]`)).toBe(stay)
    expect(refusalOf(`{"content":7,"other":"${LARGE}"}`)).toBe(stay)
    expect(refusalOf(`{"content":"${LARGE}`)).toBe(stay)
    expect(refusalOf(`{"content":"${LARGE}","more":"${'y'.repeat(1_100_000)}"}`)).toBe(stay)
  })

  test('leaves a rest that is still to be parsed', () => {
    expect(taken(`{"content":"${LARGE}" 7}`)?.rest).toBe('{"content":"" 7}')
    expect(textOf(`{"content":"${LARGE}é"}`)).toBe(`${LARGE}é`)
  })
})
