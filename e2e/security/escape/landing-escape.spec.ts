// Specification: SQL pipelines, landing_zone(). Code of users gets exactly one path of the machine. That path leads only to
// files of its zone. Text after it, in its place or around it changes nothing.
import { expect, test } from '@playwright/test'
import { newZone, pipelineWith, pythonOf } from '../../kit/resources.ts'
import { requestRun } from '../../kit/runs.ts'
import {
  ended,
  expectFailed,
  expectHealthy,
  expectNothingTold,
  expectRefused,
  newPreview,
  runOf,
  secretsIn,
} from './attempts.ts'

const ROOT = '../../../../../../../../../../..'
/** Replacements for the `*` at the end of the path. */
const PLACES = [
  `${ROOT}/etc/passwd`,
  `${ROOT}/etc/shadow`,
  `${ROOT}/proc/self/environ`,
  `${ROOT}/proc/self/cmdline`,
  `${ROOT}/proc/1/environ`,
  '../../../*',
  '../../../**/*.parquet',
  '../../../../inputs/**',
  '../../../../cache/**',
  '../../../../../run/processes.json',
  '../../../../../postgres/password',
  '../../../../../objects/_lake/**',
]
/** These places hold the zones of the same run. */
const OWN = ['../*', '../*/*']
/** SQL may not read these places. Python may, because they hold its input. */
const BESIDE = ['../../*', '../../**']
const LOCKED = /disabled by configuration|Permission Error|does not exist/

let zone: Awaited<ReturnType<typeof newZone>>
let files: string
test.beforeAll(async ({ request }) => {
  zone = await newZone(request)
  await zone.upload('a.csv')
  await zone.uploadSample('a.csv')
  files = `{{ landing_zone("${zone.name}") }}`
})

const SQL_PLACES = [...PLACES, ...BESIDE]
const READERS = ['read_text', 'read_blob', 'read_csv', 'glob']
const attempts = () => [
  ...SQL_PLACES.flatMap((place, index) => {
    const reader = READERS[index % READERS.length]
    return [
      `select * from ${reader}(replace('${files}', '*', '${place}'))`,
      // The first `..` cancels the `*` of the path.
      `select * from ${READERS[(index + 1) % READERS.length]}('${files}/../${place}')`,
    ]
  }),
  `select * from read_text([replace('${files}', '*', 'a.csv'), '/etc/passwd'])`,
  `select * from read_text(concat('/proc/self/root', replace('${files}', '*', '${ROOT}/etc/passwd')))`,
  `select * from read_text('file://${files}/../${ROOT}/etc/passwd')`,
  `from '/proc/self/cwd/${ROOT}/etc/passwd' where '${files}' <> ''`,
]

test('control: the path leads to the files of its zone', async ({ request }) => {
  const run = await runOf(request, { 'pipeline.sql': `select * from read_csv('${files}')` })
  expect([run.status, run.error]).toEqual(['success', null])
})

test(`a run does not leave its landing zone: ${2 * SQL_PLACES.length + 4} attempts`, async ({ request }) => {
  const runs = []
  for (const sql of attempts())
    runs.push({ sql, id: await requestRun(request, await pipelineWith(request, sql)) })
  for (const { sql, id } of runs) expectFailed(await ended(request, id), sql, LOCKED)
  await expectHealthy(request)
})

test(`a preview does not leave its landing zone: ${2 * SQL_PLACES.length + 4} attempts`, async ({
  request,
}) => {
  const { ask } = await newPreview(request)
  for (const code of attempts()) await expectRefused(await ask(code), code, LOCKED)
  await expectHealthy(request)
})

test('places beside a zone hold only zones of the same run', async ({ request }) => {
  const { ask } = await newPreview(request)
  for (const place of OWN) {
    const code = `select * from read_text(replace('${files}', '*', '${place}'))`
    const preview = await ask(code)
    expect([preview.status(), secretsIn(await preview.text())]).toEqual([200, []])
    const run = await runOf(request, { 'pipeline.sql': code })
    expect([run.status, secretsIn(JSON.stringify(run))]).toEqual(['success', []])
  }
})

test(`Python does not leave its landing zone, even through SQL: ${3 * PLACES.length} attempts`, async ({
  request,
}) => {
  const python = await pythonOf(request)
  // biome-ignore lint/suspicious/noSkippedTests: a machine without Python runs everything else
  test.skip(python === null, 'pipelines in Python cannot run on this machine')
  const code = `
import os
place = landing_zone("${zone.name}")
def attempt(name, call):
    try:
        found = call()
        print("REACHED" if found else "REFUSED", name, "| nothing" if not found else "")
    except BaseException as error:
        print("REFUSED", name, "|", repr(error)[:2000])
for other in ${JSON.stringify(PLACES)}:
    path = place.replace("*", other)
    attempt("opens " + other, lambda: open(path).read())
    attempt("lists " + other, lambda: os.listdir(path.split("*")[0]))
    attempt("asks for " + other, lambda: sql("select * from read_text('" + path + "')").fetchall())
result = [{"done": True}]
`
  const run = await runOf(request, { 'pipeline.py': code }, 'python')
  const lines = run.log.map(({ message }) => message)
  expect([run.status, run.error, lines.filter((line) => line.startsWith('REACHED'))]).toEqual([
    'success',
    null,
    [],
  ])
  expect(lines.filter((line) => line.startsWith('REFUSED'))).toHaveLength(3 * PLACES.length)
  expectNothingTold(lines.join('\n'), code)
  await expectHealthy(request)
})
