import { expect, test } from 'bun:test'
import { messageFaults } from './messages.ts'

const SOURCES = ['throw new Error(`the disk of $' + '{host} is\n  full | slow`)', "log.warn('run ended')"]
const row = (text: string) => `| \`${text}\` | the disk is small | free disk space |`

test('each text stands in one source, with values and line breaks', () => {
  expect(
    messageFaults([row('the disk of <host> is full \\| slow'), row('run ended')].join('\n'), SOURCES),
  ).toEqual([])
})

test('a text that no source contains, and a row without a remedy, are faults', () => {
  const document = [row('the disk of <host> ended'), '| `run ended` | it ended |  |'].join('\n')
  expect(messageFaults(document, SOURCES)).toEqual([
    'no source contains: the disk of <host> ended',
    'not a row with text, cause and remedy: | `run ended` | it ended |  |',
  ])
})
