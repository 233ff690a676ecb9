// Specification: Python pipelines. Three attacks over HTTP show that the service confines its interpreters, survives their end,
// and stops them. The list of all attempts is in the runner's own tests.
import { join } from 'node:path'
import { expect, test } from '@playwright/test'
import { eventually } from '../../kit/eventually.ts'
import { getJson, pipelineWith, pythonOf } from '../../kit/resources.ts'
import { requestRun } from '../../kit/runs.ts'
import { ended, expectFailed, expectHealthy, expectNothingTold, runOf } from './attempts.ts'

/** The directory of the service's code on this machine. */
const ROOT = join(import.meta.dirname, '..', '..', '..')

test.beforeEach(async ({ request }) => {
  const python = await pythonOf(request)
  // biome-ignore lint/suspicious/noSkippedTests: a machine without Python runs everything else
  test.skip(python === null, 'pipelines in Python cannot run on this machine')
})

/**
 * Attempts on the parts of a whole service. An attempt that raises no error has succeeded. `hostile.test.ts` of the runner
 * attempts files, processes, sockets, system calls, disk space and the channel, in each kind of sandbox.
 */
const ATTEMPTS: Record<string, string> = {
  'reads the environment of the service': 'open("/proc/%d/environ" % os.getppid()).read()',
  'finds secrets in its own environment':
    'must([k for k in os.environ if re.search("URL|KEY|SECRET|TOKEN|PASS|CANARY|DATABASE|S3", k)])',
  'finds other runs':
    'must([p for p in glob.glob(os.path.join(os.getcwd(), "../../*")) if os.path.dirname(os.getcwd()) not in os.path.realpath(p)])',
  'finds the database':
    'must(glob.glob("/**/postgresql.conf", recursive=False) + glob.glob(os.getcwd() + "/../../../../**/PG_VERSION", recursive=True))',
  'finds the lake': 'must(glob.glob(os.getcwd() + "/../../../../**/_lake/**", recursive=True))',
  'reads the code of the service': `must(glob.glob(${JSON.stringify(join(ROOT, '*'))}) + glob.glob("/**/sidecars/*"))`,
  'asks the service': 'urllib.request.urlopen("http://127.0.0.1:PORT/api/v1/namespaces", timeout=1)',
  'reads a file by SQL': 'sql("select * from read_text(\'/etc/passwd\')").fetchall()',
  'sets by SQL': 'sql("set memory_limit = \'100GB\'")',
  'reads what is not a zone': 'landing_zone("../../secrets")',
}

const source = (port: string) => `
import glob, json, os, re, urllib.request
class Refused(Exception): pass
def refused(): raise Refused("nothing came of it")
def must(found):
    if not found: refused()
for name, code in json.loads(${JSON.stringify(JSON.stringify(ATTEMPTS))}).items():
    try:
        exec(code.replace("PORT", "${port}"), dict(globals()))
        print("REACHED", name)
    except BaseException as error:
        # What it says is searched as well.
        print("REFUSED", name, "|", type(error).__name__, "|", repr(error)[:2000])
result = [{"done": True}]
`

test(`Python does not leave its process: ${Object.keys(ATTEMPTS).length} attempts`, async ({
  request,
  baseURL,
}) => {
  const code = source(new URL(baseURL ?? '').port)
  const run = await runOf(request, { 'pipeline.py': code }, 'python')
  const lines = run.log.map(({ message }) => message)
  expect([run.status, run.error, lines.filter((line) => line.startsWith('REACHED'))]).toEqual([
    'success',
    null,
    [],
  ])
  // An attempt with a mistake in its code would count as refused, so such errors fail the test.
  expect(lines.filter((line) => /\| (Name|Syntax|Type|Attribute|Index|Key)Error/.test(line))).toEqual([])
  expect(lines.filter((line) => line.startsWith('REFUSED')).length).toBe(Object.keys(ATTEMPTS).length)
  expectNothingTold(lines.join('\n'), code)
  await expectHealthy(request)
})

test('Python that forges its result fails its run with a message', async ({ request }) => {
  const code = `import os
for n in range(1, 16):
  try: os.write(n, b'{"result": "/etc/passwd"}\\n')
  except OSError: pass
os._exit(0)`
  expectFailed(await runOf(request, { 'pipeline.py': code }, 'python'), code, /./)
  await expectHealthy(request)
})

test('endless Python can be cancelled', async ({ request }) => {
  const code = 'print("on")\nwhile True: pass'
  const id = await requestRun(request, await pipelineWith(request, code, { type: 'python' }))
  const lines = async () => (await getJson(request, `/api/v1/runs/${id}/logs`)).logs
  await eventually(async () => JSON.stringify(await lines())).toContain('"on"')
  expect((await request.post(`/api/v1/runs/${id}/cancel`)).status()).toBe(200)
  expect((await ended(request, id)).status).toBe('cancelled')
  await expectHealthy(request)
})
