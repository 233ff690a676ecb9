import { expect, test } from 'bun:test'
import { limits } from '../core/limits.ts'
import { type AttemptEvent, AttemptLog } from './attempt-log.ts'

const never = new AbortController().signal

async function read(log: AttemptLog, afterSeq = 0): Promise<AttemptEvent[]> {
  const events: AttemptEvent[] = []
  for await (const event of log.follow(afterSeq, never)) events.push(event)
  return events
}

const text = (event: AttemptEvent) =>
  event.kind === 'line' ? `${event.line.seq} ${event.line.message}` : event.kind

test('a follower receives the events before and after its arrival', async () => {
  const log = new AttemptLog()
  log.write('info', 'before')
  const following = read(log)
  log.enter('executing')
  log.write('warn', 'after')
  log.end()
  expect((await following).map(text)).toEqual(['1 before', 'phase', '2 after'])
  expect((await read(log)).map(text)).toEqual(['1 before', 'phase', '2 after'])
})

test('a returning follower receives the lines it lacks and every phase', async () => {
  const log = new AttemptLog()
  for (const message of ['a', 'b', 'c']) log.write('info', message)
  log.enter('testing')
  log.end()
  expect((await read(log, 2)).map(text)).toEqual(['3 c', 'phase'])
  expect((await read(log, 99)).map(text)).toEqual(['phase'])
})

test('a follower receives heartbeats while the log is silent', async () => {
  const log = new AttemptLog()
  const follower = log.follow(0, never)
  expect((await follower.next()).value).toEqual({ kind: 'heartbeat' })
  log.write('info', 'a')
  expect((await follower.next()).value).toMatchObject({ kind: 'line' })
})

test('a follower leaves when its signal is aborted', async () => {
  const log = new AttemptLog()
  const abort = new AbortController()
  const next = log.follow(0, abort.signal).next()
  abort.abort(new Error('left'))
  await expect(next).rejects.toThrow('left')
})

test('lines beyond the limit are dropped, and the last line counts them', async () => {
  const log = new AttemptLog()
  for (let line = 0; line < limits.logLines + 5; line += 1) log.write('info', 'x')
  log.end()
  const lines = await read(log)
  expect(lines).toHaveLength(limits.logLines)
  expect(text(lines[limits.logLines - 1] as AttemptEvent)).toBe(
    `${limits.logLines} 6 more log lines were dropped: the log of a run is limited to ${limits.logLines} lines and 8 MiB`,
  )
})

test('lines beyond the byte limit are dropped, and long lines are cut', async () => {
  const log = new AttemptLog()
  const long = 'ä'.repeat(limits.logMessageCharacters * 2)
  for (let line = 0; line < 300; line += 1) log.write('info', long)
  log.end()
  const lines = await read(log)
  const stored = Math.floor(limits.logBytes / (2 * limits.logMessageCharacters))
  expect(lines).toHaveLength(stored + 1)
  expect(text(lines[stored] as AttemptEvent)).toContain(`${300 - stored} more log lines were dropped`)
})

test('an ended log accepts no more lines', async () => {
  const log = new AttemptLog()
  log.end()
  log.write('info', 'late')
  log.end()
  expect(await read(log)).toEqual([])
})
