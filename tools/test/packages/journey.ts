/** One journey through the API of a packaged service: a pipeline in SQL, a pipeline in Python, a query, and the pages. */
const POLL_MS = 100
const READY_LIMIT_MS = 90_000

const PIPELINES = [
  {
    layer: 'silver',
    name: 'squares',
    type: 'sql',
    file: 'pipeline.sql',
    text: 'select range as n, n * n as square from range(10)',
  },
  {
    layer: 'gold',
    name: 'large',
    type: 'python',
    file: 'pipeline.py',
    text: `rows = sql("select * from " + ref("silver.squares")).rows()
result = [{"n": row["n"]} for row in rows if row["square"] > 50]`,
  },
]
const PAGES = ['/', '/swagger', '/swagger/swagger-ui-bundle.js', '/swagger/json', '/inspector']

/** Resolves when the address answers with success. Rejects with the last answer after a while. */
export async function untilAnswers(url: string, hasEnded: () => boolean = () => false) {
  const deadline = performance.now() + READY_LIMIT_MS
  let last = 'no answer'
  while (performance.now() < deadline && !hasEnded()) {
    const response = await fetch(url).catch((error: unknown) => String(error))
    if (typeof response !== 'string' && response.ok) return
    last = typeof response === 'string' ? response : `${response.status} ${await response.text()}`
    await Bun.sleep(POLL_MS)
  }
  throw new Error(`${url}: ${last}`)
}

/** Runs both pipelines and reads all pages. Returns what is wrong, or undefined. */
export async function journey(url: string, key = ''): Promise<string | undefined> {
  const send = async (method: string, path: string, body?: unknown) => {
    const headers = { 'content-type': 'application/json', ...(key === '' ? {} : { 'x-api-key': key }) }
    const response = await fetch(`${url}/api/v1${path}`, { method, headers, body: JSON.stringify(body) })
    const text = await response.text()
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`)
    return JSON.parse(text)
  }
  for (const { layer, name, type, file, text } of PIPELINES) {
    await send('POST', '/pipelines', { namespace: 'default', layer, name, type })
    await send('PUT', `/files/default/pipelines/${layer}/${name}/${file}`, { content: text })
    await send('POST', `/pipelines/default/${layer}/${name}/publish`)
    const { run_id } = await send('POST', '/runs', { namespace: 'default', layer, pipeline: name })
    const headers: Record<string, string> = { accept: 'text/event-stream' }
    if (key !== '') headers['x-api-key'] = key
    // The stream of the log ends with the run.
    const log = await (await fetch(`${url}/api/v1/runs/${run_id}/logs`, { headers })).text()
    if (!log.includes('"status":"success"')) return `the run of ${layer}.${name} failed\n${log}`
  }
  const { rows } = await send('POST', '/query', { sql: 'select n from gold.large order by n' })
  if (JSON.stringify(rows) !== JSON.stringify([{ n: 8 }, { n: 9 }]))
    return `unexpected rows: ${JSON.stringify(rows)}`
  for (const page of PAGES) {
    const response = await fetch(url + page)
    if (!response.ok || (await response.text()) === '') return `${page} answers ${response.status}`
  }
}
