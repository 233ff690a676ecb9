// Helpers of the escape tests: how an attempt is made, and which texts no answer may contain.
import { type APIRequestContext, type APIResponse, expect } from '@playwright/test'
import { fresh, newPipeline, pipelineWith, readiness, writeFile } from '../../kit/resources.ts'
import { type EndedRun, ended as endedRun, logOf, requestRun } from '../../kit/runs.ts'

/**
 * Secrets that no answer may contain: those planted by `test:security` and those that the service has made. Patterns of places
 * of the machine are added. A service without planted secrets is searched for the rest.
 */
const CANARY = /canary-[a-z0-9-]+/g
const MADE: string[] = JSON.parse(process.env.SLUICE_SECRETS ?? '[]')
const OF_THE_MACHINE =
  /postgres(?:ql)?:\/\/|root:|BEGIN [A-Z ]*PRIVATE KEY|node_modules|\/scratch\/|\/engines\/[\da-f]|\/inputs\/[\da-f]|objects\/_lake|Bearer |eyJ[\w-]{20}|at .*\.ts:\d+/

export const secretsIn = (text: string) => [
  ...(text.match(CANARY) ?? []),
  ...MADE.filter((secret) => text.includes(secret)),
]

/**
 * Expects no secret in `told`, the text that an attempt produced. Words of the attempt's own source, `written`, reveal nothing.
 */
export function expectNothingTold(told: string, written: string): void {
  expect(secretsIn(told), written).toEqual([])
  // The longest words first, because a word may be part of another.
  const words = (written.match(/[\w./:*@-]{4,}/g) ?? []).sort((a, b) => b.length - a.length)
  const rest = words.reduce((text, word) => text.replaceAll(word, ''), told)
  expect(rest, written).not.toMatch(OF_THE_MACHINE)
}

/** The service is ready, its engines answer, and its metrics contain no secret. */
export async function expectHealthy(request: APIRequestContext): Promise<void> {
  await readiness(request)
  const answer = await request.post('/api/v1/query', { data: { sql: 'select 42 as answer' } })
  expect([answer.status(), (await answer.json()).rows]).toEqual([200, [{ answer: 42 }]])
  expect(secretsIn(await (await request.get('/metrics')).text())).toEqual([])
}

/** Previews one pipeline with the code of an attempt. */
export async function newPreview(request: APIRequestContext) {
  const pipeline = await pipelineWith(request, 'select 1 as a', { layer: 'silver' })
  return {
    ...pipeline,
    ask: (code: string) => request.post(`${pipeline.url}/preview`, { data: { code } }),
  }
}

/** Expects a refusal: 400 with this message for the author of the code. */
export async function expectRefused(response: APIResponse, code: string, message: RegExp): Promise<void> {
  const text = await response.text()
  expect.soft([response.status(), text], code).toEqual([400, expect.stringMatching(message)])
  expectNothingTold(JSON.parse(text).error.message, code)
}

interface Ended extends EndedRun {
  log: { level: string; message: string }[]
}

/** Runs a pipeline with these files and waits for the end of the run. */
export async function runOf(
  request: APIRequestContext,
  files: Record<string, string>,
  type: 'sql' | 'python' = 'sql',
): Promise<Ended> {
  const pipeline = await newPipeline(request, { name: fresh('escape'), type })
  for (const [path, content] of Object.entries(files))
    await writeFile(request, `${pipeline.prefix}${path}`, content)
  return ended(request, await requestRun(request, pipeline))
}

/** Waits for the end of a run and reads its log. */
export const ended = async (request: APIRequestContext, id: string): Promise<Ended> => ({
  ...(await endedRun(request, id)),
  log: await logOf(request, id),
})

const withoutSecretsOf = (text: string, written: string) =>
  secretsIn(written).reduce((rest, secret) => rest.replaceAll(secret, ''), text)

/** Expects a failed run with this message. Neither the message nor the log may reveal anything else. */
export function expectFailed(run: Ended, written: string, message: RegExp): void {
  expect.soft([run.status, run.error], written).toEqual(['failed', expect.stringMatching(message)])
  const messages = run.log.map(({ message }) =>
    // This line repeats the source, which may contain a secret of its own author. No other line may.
    message.startsWith('rendered SQL:\n') ? withoutSecretsOf(message, written) : message,
  )
  expectNothingTold([run.error, ...messages].join('\n'), written)
}
