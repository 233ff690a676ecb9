import { expect, test } from 'bun:test'
import { batchLines, makeLog } from './log.ts'

function written(format: 'text' | 'json', message: string, fields: Record<string, unknown>) {
  const lines: string[] = []
  const log = makeLog('api', format, (line) => lines.push(line) > 0)
  log.warn(message, fields)
  return lines.join('')
}

test('escapes control characters, so that no text can forge an entry', () => {
  const error = 'no\nerror POST /api/v1/runs 500\r\nx\u001b[2Jy\u0085z\u2028end\tt'
  expect(written('text', 'it failed', { error })).toBe(
    'warn it failed error=no\n    error POST /api/v1/runs 500\n    x\\u001b[2Jy\\u0085z\\u2028end\\u0009t\n',
  )
  expect(written('json', 'it\nfailed', { error }).trimEnd().split('\n')).toHaveLength(1)
})

test('writes plain text unchanged', () => {
  expect(written('text', 'it failed', { ms: 1.5, name: 'ä b' })).toBe('warn it failed ms=1.5 name=ä b\n')
})

test('info lines of one turn share a write; warnings and errors flush', async () => {
  const written: string[] = []
  const { write, flush } = batchLines((text) => written.push(text))
  const log = makeLog('api', 'text', write)
  log.info('one')
  log.info('two')
  expect(written).toEqual([])
  await new Promise((resolve) => setImmediate(resolve))
  expect(written).toEqual(['one\ntwo\n'])
  log.info('three')
  log.warn('four')
  expect(written).toEqual(['one\ntwo\n', 'three\nwarn four\n'])
  log.info('five')
  flush()
  expect(written.at(-1)).toBe('five\n')
  await new Promise((resolve) => setImmediate(resolve))
  expect(written).toHaveLength(3)
})
