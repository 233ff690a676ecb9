import { expect, test } from 'bun:test'
import { EngineFault } from '../engine/engine-messages.ts'
import { reasonOf } from './wording.ts'

const rendered = { file: 'pipeline.sql', source: 'select 1', sql: 'select 1' }
const said = (message: string) => reasonOf(new EngineFault({ kind: 'other', message }), rendered)

test('an unreadable lake file is named by its path in the lake', () => {
  const words = "Invalid Input Error: No magic bytes found at end of file '"
  expect(said(`${words}/srv/sluice data/objects/_lake/shop/silver/orders-1a2b/data/x.parquet'`)).toBe(
    `pipeline.sql: ${words}_lake/shop/silver/orders-1a2b/data/x.parquet'`,
  )
  expect(said(`${words}/srv/scratch/cache/${'0f'.repeat(32)}'`)).toBe(
    `pipeline.sql: ${words}a file of the lake'`,
  )
  expect(reasonOf(new EngineFault({ kind: 'other', message: `${words}/srv/o/_lake/a/b'` }))).toBe(
    `${words}_lake/a/b'`,
  )
})

test('paths of other files stay as they are', () => {
  expect(said("IO Error: cannot open '/etc/passwd': no access")).toBe(
    "pipeline.sql: IO Error: cannot open '/etc/passwd': no access",
  )
})

test('a message of an engine is processed in linear time', () => {
  for (const piece of [
    '/',
    '/a',
    "/'",
    '/_lake/',
    '/_lake/ ',
    '/cache/',
    `/cache/${'0'.repeat(63)}`,
    '\n',
    '\n ',
    '\nLINE 1',
    '$/*',
  ])
    for (const end of ['', 'a', "'"]) {
      const message = piece.repeat(1_000_000 / piece.length) + end
      for (const kind of ['other', 'out_of_memory'] as const) {
        const began = process.cpuUsage()
        reasonOf(new EngineFault({ kind, message }), rendered)
        // Quadratic time would take minutes. Processor time is measured, because other processes may be running.
        expect(process.cpuUsage(began).user / 1_000).toBeLessThan(5_000)
      }
    }
})
