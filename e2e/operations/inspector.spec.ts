// The inspector's API on a running service: a real run and its event stream.
import { expect, test } from '@playwright/test'
import { getJson, instant, publishedPipeline, uuid } from '../kit/resources.ts'
import { requestRun } from '../kit/runs.ts'

const API = '/api/v1/inspector'

interface Step {
  id: number
  step: number
  event: string
  to: string
  transition: string | null
  duration_ms: number | null
}

/** All events of a stream, read until the stream ends. */
async function eventsOf(url: string) {
  const response = await fetch(url, { headers: { accept: 'text/event-stream' } })
  expect(response.headers.get('content-type')).toContain('text/event-stream')
  return [...(await response.text()).matchAll(/event: (\w+)\ndata: (.*)\n/g)].map(([, name, data]) => ({
    name,
    data: JSON.parse(data ?? ''),
  }))
}

test('the event stream follows a run to the end of its history', async ({ request, baseURL }) => {
  const pipeline = await publishedPipeline(request)
  const id = await requestRun(request, pipeline)
  const events = await eventsOf(`${baseURL}${API}/run/instances/${id}/events`)
  const steps: Step[] = events.flatMap(({ name, data }) => (name === 'transition' ? [data] : []))
  expect(steps[0]).toMatchObject({
    step: 1,
    event: 'requested',
    to: 'pending.waiting',
    transition: 'created',
  })
  expect(steps.at(-1)).toMatchObject({ event: 'merged', to: 'success' })
  expect(steps.map(({ transition }) => transition)).not.toContain(null)
  expect(events.at(-1)).toMatchObject({
    name: 'snapshot',
    data: { state: 'success', live: false, waits_for: [] },
  })

  const run = await getJson(request, `${API}/run/instances/${id}`)
  expect(run).toMatchObject({
    machine: 'run',
    id,
    state: 'success',
    pipeline: pipeline.name,
    created_at: instant,
    pipeline_id: uuid,
    snapshot: { value: 'success', status: 'done' },
    facts: { rows_written: 1, error: null, version_number: 1 },
  })
  expect(run.history.steps.map(({ id: step }: Step) => step)).toEqual(steps.map(({ id: step }) => step))
  const spent = run.history.steps.slice(0, -1).map(({ duration_ms }: Step) => duration_ms)
  expect(spent).toEqual(spent.map(() => expect.any(Number)))
})
