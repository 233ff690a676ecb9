// What the specifications of escapes share: how an attempt is made, and what no answer may hold.
import { type APIRequestContext, type APIResponse, expect } from '@playwright/test'
import { fresh, newPipeline, pipelineWith, readiness, writeFile } from '../resources.ts'
import { type EndedRun, ended as endedRun, logOf, requestRun } from '../runs.ts'

/**
 * Secrets that the suite's service is started with (`test:security`), those that it has made, and what gives a place of the
 * machine away. A service without planted secrets is searched for the rest.
 */
const CANARY = /canary-[a-z0-9-]+/g
const MADE: string[] = JSON.parse(process.env.SLUICE_SECRETS ?? '[]')
const OF_THE_MACHINE =
  /postgres(?:ql)?:\/\/|root:|BEGIN [A-Z ]*PRIVATE KEY|node_modules|\/scratch\/|\/engines\/[\da-f]|\/inputs\/[\da-f]|objects\/_lake|Bearer |eyJ[\w-]{20}|at .*\.ts:\d+/

export const secretsIn = (text: string) => [
  ...(text.match(CANARY) ?? []),
  ...MADE.filter((secret) => text.includes(secret)),
]

/** Text that an attempt has produced; what its author wrote himself tells him nothing. */
export function expectNothingTold(told: string, written: string): void {
  expect(secretsIn(told), written).toEqual([])
  // The longest first: a word may be in another.
  const words = (written.match(/[\w./:*@-]{4,}/g) ?? []).sort((a, b) => b.length - a.length)
  const rest = words.reduce((text, word) => text.replaceAll(word, ''), told)
  expect(rest, written).not.toMatch(OF_THE_MACHINE)
}

/** The service is well: it is ready, its engines answer, and its metrics hold no secret either. */
export async function expectHealthy(request: APIRequestContext): Promise<void> {
  await readiness(request)
  const answer = await request.post('/api/v1/query', { data: { sql: 'select 42 as answer' } })
  expect([answer.status(), (await answer.json()).rows]).toEqual([200, [{ answer: 42 }]])
  expect(secretsIn(await (await request.get('/metrics')).text())).toEqual([])
}

/** Previews of one pipeline, with code of the attempt. */
export async function newPreview(request: APIRequestContext) {
  const pipeline = await pipelineWith(request, 'select 1 as a', { layer: 'silver' })
  return {
    ...pipeline,
    ask: (code: string) => request.post(`${pipeline.url}/preview`, { data: { code } }),
  }
}

/** It is refused with words for its author: 400 and a message that says this. */
export async function expectRefused(response: APIResponse, code: string, message: RegExp): Promise<void> {
  const text = await response.text()
  expect.soft([response.status(), text], code).toEqual([400, expect.stringMatching(message)])
  expectNothingTold(JSON.parse(text).error.message, code)
}

export interface Ended extends EndedRun {
  log: { level: string; message: string }[]
}

/** A run of a pipeline with these files, from its request to its end. */
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

/** Waits for the end of a run, and reads its log. */
export const ended = async (request: APIRequestContext, id: string): Promise<Ended> => ({
  ...(await endedRun(request, id)),
  log: await logOf(request, id),
})

/** The run has failed with words that say this, and neither they nor its log hold anything else. */
export function expectFailed(run: Ended, written: string, message: RegExp): void {
  expect.soft([run.status, run.error], written).toEqual(['failed', expect.stringMatching(message)])
  expectNothingTold([run.error, ...run.log.map((line) => line.message)].join('\n'), written)
}
