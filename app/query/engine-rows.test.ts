import { expect, test } from 'bun:test'
import { tableFromArrays, tableToIPC } from 'apache-arrow'
import { makeSlots } from '../../ground/process/slots.ts'
import { makeEngineRows } from './engine-rows.ts'

const ROWS = 100_000
const arrowOf = (rows: number) =>
  tableToIPC(tableFromArrays({ number: new Float64Array(rows).fill(0.123456789) }), 'stream')
const large = arrowOf(ROWS)
const { signal } = new AbortController()
const options = { shape: 'objects', rows: ROWS, bytesMax: 10_000_000, signal } as const

test('large answers wait for a slot or get 503, small answers pass', async () => {
  const writing = makeSlots(1, 1)
  const engineRows = makeEngineRows(writing)
  const release = await writing.acquire(signal)
  let isWritten = false
  const waiting = engineRows(large, options).then((rows) => {
    isWritten = true
    return rows
  })
  expect((await engineRows(arrowOf(1_000), options)).columns).toHaveLength(1)
  await expect(engineRows(large, options)).rejects.toMatchObject({ status: 503, code: 'UNAVAILABLE' })
  expect(isWritten).toBe(false)
  release()
  expect((await waiting).chunks.length).toBeGreaterThan(10)
})

test('a failed or aborted answer releases its slot', async () => {
  const writing = makeSlots(1, 0)
  const engineRows = makeEngineRows(writing)
  await expect(engineRows(large, { ...options, bytesMax: 2_000_000 })).rejects.toMatchObject({ status: 400 })
  const reader = new AbortController()
  const abortsWhileWritten = {
    async acquire(signal: AbortSignal) {
      const release = await writing.acquire(signal)
      reader.abort(new Error('gone'))
      return release
    },
  }
  const aborted = makeEngineRows(abortsWhileWritten)(large, { ...options, signal: reader.signal })
  await expect(aborted).rejects.toThrow('gone')
  expect((await engineRows(large, options)).columns).toHaveLength(1)
})
