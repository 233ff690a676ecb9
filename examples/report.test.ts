import { expect, test } from 'bun:test'
import { durationText, makePhaseLine, stepLine, tableLines, testLines, widthOf } from './report.ts'

const severities = new Map([
  ['known-airports', 'error'],
  ['plausible-delays', 'warn'],
])
const sample = `departed_at=2001-02-01 12:17:00, origin=LAS, note=two\nlines, origin_city=Las Vegas, destination=PHX`
const log = [
  'rendered pipeline.sql in 35 ms',
  'test known-airports: passed in 70 ms',
  'test plausible-delays: failed with value 3 (severity warn) in 9 ms',
  `test plausible-delays: ${sample}`,
  `test plausible-delays: ${sample}`,
  `test plausible-delays: short=1`,
  '1 test passed, 1 failed in 80 ms',
].map((message) => ({ message }))

test('prints one line per quality test and one per failing row', () => {
  const lines = testLines(log, severities, 100)
  expect(lines.map((line) => line.trim())).toEqual([
    '✓ known-airports    error  passed in 70 ms',
    '! plausible-delays  warn   failed with value 3 in 9 ms',
    expect.stringMatching(/^departed_at=2001-02-01 12:17:00, origin=LAS, note=two lines, .*…$/),
    expect.stringMatching(/^departed_at=.*…$/),
    'short=1',
  ])
})

test.each([60, 80, 100])('cuts the lines of quality tests at %i columns', (width) => {
  const lines = testLines(log, severities, width)
  expect(Math.max(...lines.map((line) => line.length))).toBe(width)
})

test('marks a failed test of severity error and prints its error', () => {
  const lines = testLines(
    [{ message: 'test known-airports: failed with an error (severity error): no such column: x' }],
    severities,
    100,
  )
  expect(lines[0]?.trim()).toBe('✗ known-airports    error  failed with an error: no such column: x')
})

test('prints phases in one line with durations, wrapped at the terminal width', () => {
  let written = ''
  const line = makePhaseLine((text) => {
    written += text
  }, 70)
  for (const [phase, ms] of [
    ['pending', 3],
    ['rendering', 100],
    ['executing', 1_840],
    ['testing', 99],
  ] as const) {
    line.next(phase)
    line.took(ms)
  }
  line.next('merged as commit 3', { isLast: true })
  line.end()
  line.end()
  const indent = ' '.repeat(21)
  expect(written).toBe(
    `${indent}pending → rendering 0.1 s → executing 1.8 s\n${indent}→ testing → merged as commit 3\n`,
  )
})

test.each([60, 80, 100])('wraps phases and their durations at %i columns', (width) => {
  let written = ''
  const line = makePhaseLine((text) => {
    written += text
  }, width)
  for (const phase of ['pending', 'rendering', 'executing', 'testing']) {
    line.next(phase)
    line.took(12_345)
  }
  line.next('merged as commit 4711', { isLast: true })
  line.end()
  expect(Math.max(...written.split('\n').map((text) => text.length))).toBeLessThanOrEqual(width)
})

test('aligns the durations of steps at the right edge of the terminal', () => {
  const lines = [
    stepLine({ name: 'service', result: 'ready', ms: 1_640 }, 100),
    stepLine({ name: 'gold.route_delays', result: 'published as version 12', ms: 7 }, 100),
  ]
  expect(lines.map((line) => line.length)).toEqual([100, 100])
  expect(lines[0]).toEndWith(' 1.6 s')
  expect(lines[1]).toEndWith(' 7 ms')
  expect(durationText(999.6)).toBe('1000 ms')
})

test('uses the maximum width when the output is a file', () => {
  expect([widthOf(undefined), widthOf(200), widthOf(80)]).toEqual([100, 100, 80])
})

test('aligns the columns of a table with their names', () => {
  expect(tableLines(['origin', 'n'], [{ origin: 'BOS', n: 100 }])).toEqual([
    '  origin    n',
    '  ──────  ───',
    '     BOS  100',
  ])
})
