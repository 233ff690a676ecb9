// What authentication costs of throughput: GET /api/v1/features without it, with an API key, and with an access token that
// was verified before; and, since a longer request costs something by itself, without it but with the same header sent.
// All in one run, in turns, so that what the machine does meanwhile meets them alike.
import { connect } from 'node:net'
import { countCpu } from './cpu.ts'

const CALLERS = 16
const ROUNDS = 12
const ROUND_MS = 700

interface Place {
  name: string
  port: number
  header: string
}

export async function benchAuth() {
  const child = Bun.spawn([process.execPath, new URL('./auth.process.ts', import.meta.url).pathname], {
    stdin: 'pipe',
    stdout: 'pipe',
  })
  const places: Place[] = JSON.parse(await firstLine(child.stdout))
  const rates = new Map<string, number[]>(places.map(({ name }) => [name, []]))
  const spent = new Map<string, { ms: number; answers: number }>()
  const cpu = countCpu({ processes: { server: child.pid } })
  for (const place of places) await rateOf(place)
  for (let round = 0; round < ROUNDS; round++)
    for (const place of round % 2 === 0 ? places : places.toReversed()) {
      const before = cpu().server ?? Number.NaN
      const rate = await rateOf(place)
      const { ms, answers } = spent.get(place.name) ?? { ms: 0, answers: 0 }
      const now = cpu().server ?? Number.NaN
      spent.set(place.name, { ms: ms + now - before, answers: answers + (rate * ROUND_MS) / 1_000 })
      rates.get(place.name)?.push(rate)
    }
  child.stdin.end()
  await child.exited
  const median = (name: string) => {
    const sorted = (rates.get(name) ?? []).toSorted((a, b) => a - b)
    return ((sorted[ROUNDS / 2 - 1] ?? Number.NaN) + (sorted[ROUNDS / 2] ?? Number.NaN)) / 2
  }
  const base = median('none')
  console.log(
    `  ${''.padEnd(28)}${'per second'.padStart(12)}${'cost'.padStart(9)}${'of the same bytes'.padStart(20)}${'CPU each'.padStart(10)}   (medians of ${ROUNDS} rounds)`,
  )
  const cost = (name: string, base: number) => `${((1 - median(name) / base) * 100).toFixed(1)}%`
  for (const { name, header } of places) {
    const same = places.find((place) => place.header === header)
    const { ms = 0, answers = 1 } = spent.get(name) ?? {}
    const micros = `${((ms * 1_000) / answers).toFixed(1)} us`
    console.log(
      `  ${name.padEnd(28)}${median(name).toFixed(0).padStart(12)}${cost(name, base).padStart(9)}${cost(name, median(same?.name ?? 'none')).padStart(20)}${micros.padStart(10)}`,
    )
  }
}

/** Answers per second to callers who each wait for their answer before they ask again. */
async function rateOf({ port, header }: Place): Promise<number> {
  const request = `GET /api/v1/features HTTP/1.1\r\nhost: 127.0.0.1\r\n${header}\r\n`
  const until = performance.now() + ROUND_MS
  const counts = await Promise.all(Array.from({ length: CALLERS }, () => call(port, request, until)))
  return (counts.reduce((sum, count) => sum + count, 0) * 1_000) / ROUND_MS
}

function call(port: number, request: string, until: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true }, () => socket.write(request))
    let count = 0
    socket.setEncoding('latin1')
    socket.on('data', (answer: string) => {
      if (!answer.startsWith('HTTP/1.1 200')) return reject(new Error(answer.slice(0, 200)))
      count += 1
      if (performance.now() < until) return socket.write(request)
      socket.destroy()
      resolve(count)
    })
    socket.on('error', reject)
  })
}

async function firstLine(stream: ReadableStream<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  for await (const chunk of stream) {
    text += decoder.decode(chunk, { stream: true })
    if (text.includes('\n')) break
  }
  return text
}
