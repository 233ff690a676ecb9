// What the service adds to an HTTP exchange: GET /health on the whole service, beside a bare Bun.serve and Fastify on Node that
// send the same headers. Keep-alive connections with one request each under way; rounds alternate, and the medians are told.
// The client takes a core of its own, and where it is the slower one it hides what the servers differ by: so its share is
// told, and the servers are compared by the CPU that a request costs them, too.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { eachLine } from '../sidecars/supervisor/lines.ts'
import { type Service, startService } from '../tools/test/service.ts'

const CONNECTIONS = 64
const ROUNDS = 7
const ROUND_MS = 1_500
const WARM_UP_MS = 3_000
/** Written by the servers themselves. */
const OWN_HEADERS = ['date', 'content-length', 'connection', 'keep-alive', 'transfer-encoding']

interface Contender {
  name: string
  url: string
  pid: number
  stop(): unknown
}

export async function benchHealth() {
  const service = await startService({ RUNNER_URLS: 'none', QUERY_URLS: 'none' })
  const contenders = [await theService(service)]
  try {
    const answer = await answerOf(`${service.url}/health`)
    contenders.push(await started('bare Bun.serve', [process.execPath, 'bare-server.process.ts'], answer))
    contenders.push(await started('Fastify on Node', ['node', 'fastify-server.process.mjs'], answer))
    const results = new Map(contenders.map(({ name }) => [name, [] as Round[]]))
    for (const { url } of contenders) await load(url, WARM_UP_MS)
    for (let round = 0; round < ROUNDS; round++)
      for (const { name, url, pid } of contenders) {
        const before = [await cpuMs(pid), await cpuMs(process.pid)] as const
        const requests = await load(url, ROUND_MS)
        const micros = (spent: number) => (spent * 1_000) / requests
        results.get(name)?.push({
          perSecond: (requests * 1_000) / ROUND_MS,
          micros: micros((await cpuMs(pid)) - before[0]),
          clientMicros: micros((await cpuMs(process.pid)) - before[1]),
        })
      }
    const [ours, bare, fastify] = contenders.map(({ name }) => {
      const rounds = results.get(name) ?? []
      const of = (figure: keyof Round) => median(rounds.map((round) => round[figure]))
      const found = { perSecond: of('perSecond'), micros: of('micros'), clientMicros: of('clientMicros') }
      console.log(
        `  ${name.padEnd(16)} ${Math.round(found.perSecond)} requests/s, ${found.micros.toFixed(1)} us of CPU each, ` +
          `${found.clientMicros.toFixed(1)} us of the client`,
      )
      return found
    })
    if (ours === undefined || bare === undefined || fastify === undefined) return
    for (const [by, ofBare, ofFastify] of [
      ['rate', ours.perSecond / bare.perSecond, ours.perSecond / fastify.perSecond],
      ['CPU of the server', bare.micros / ours.micros, fastify.micros / ours.micros],
    ] as const)
      console.log(
        `  by ${by}: ${Math.round(ofBare * 100)}% of the bare server, ${ofFastify.toFixed(2)} times Fastify`,
      )
  } finally {
    for (const { stop } of contenders) await stop()
  }
}

interface Round {
  perSecond: number
  /** Of CPU, for each request. */
  micros: number
  clientMicros: number
}

async function theService({ url, dataDir, stop }: Service): Promise<Contender> {
  const registry: { processes: { name: string; pid: number }[] } = JSON.parse(
    await readFile(join(dataDir, 'run', 'processes.json'), 'utf8'),
  )
  const pid = registry.processes.find(({ name }) => name === 'api')?.pid ?? 0
  return { name: 'the service', url: `${url}/health`, pid, stop }
}

async function answerOf(url: string) {
  const response = await fetch(url)
  const headers = Object.fromEntries([...response.headers].filter(([name]) => !OWN_HEADERS.includes(name)))
  return { headers, body: await response.text() }
}

async function started(
  name: string,
  [program = '', file = '']: string[],
  answer: object,
): Promise<Contender> {
  const child = Bun.spawn([program, join(import.meta.dirname, file)], {
    env: { ...process.env, ANSWER: JSON.stringify(answer) },
    stdout: 'pipe',
    stderr: 'inherit',
  })
  const address = Promise.withResolvers<string>()
  void eachLine(child.stdout, address.resolve)
  return { name, url: `${await address.promise}health`, pid: child.pid, stop: () => child.kill() }
}

/** Asks for the address on all connections until the time is up; resolves with the number of answers. */
async function load(url: string, ms: number): Promise<number> {
  const { hostname, port, pathname } = new URL(url)
  const request = Buffer.from(`GET ${pathname} HTTP/1.1\r\nHost: ${hostname}:${port}\r\n\r\n`)
  let answers = 0
  let isOver = false
  const ends: Promise<void>[] = []
  /** All answers are as long as the first one. */
  let answerBytes = 0
  for (let index = 0; index < CONNECTIONS; index++) {
    const end = Promise.withResolvers<void>()
    ends.push(end.promise)
    let bytes = 0
    const socket = await Bun.connect({
      hostname,
      port: Number(port),
      socket: {
        data(self, chunk) {
          answerBytes ||= lengthOf(chunk)
          bytes += chunk.byteLength
          if (bytes < answerBytes) return
          if (bytes > answerBytes) throw new Error('answers differ in length')
          bytes = 0
          answers++
          if (isOver) self.end()
          else self.write(request)
        },
        close: () => end.resolve(),
      },
    })
    socket.write(request)
  }
  answers = 0
  await Bun.sleep(ms)
  const counted = answers
  isOver = true
  await Promise.all(ends)
  return counted
}

function lengthOf(chunk: Buffer) {
  const text = chunk.toString('latin1')
  const head = text.indexOf('\r\n\r\n') + 4
  const length = /content-length: (\d+)/i.exec(text)?.[1]
  if (!text.startsWith('HTTP/1.1 200') || head < 4 || length === undefined) throw new Error(text)
  return head + Number(length)
}

/** User and system time of a process in milliseconds (Linux; elsewhere not a number). */
async function cpuMs(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) * 10
}

const median = (values: number[]) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0
