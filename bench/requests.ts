// A minimal HTTP client that costs almost no CPU, so that a benchmark on the machine of the service measures the service. Each
// caller has one keep-alive socket, writes the request as one string, and reads only the status and the body of a response.
import { connect } from 'node:net'

export interface Caller {
  /** POSTs JSON and resolves with the body of a 2xx response; throws on any other status. One request at a time. */
  post(path: string, body: string): Promise<string>
  /** Like `post`, as a GET without a body. */
  get(path: string): Promise<string>
  close(): void
}

export async function openCaller(url: string): Promise<Caller> {
  const { hostname, port, host } = new URL(url)
  const socket = connect({ host: hostname, port: Number(port), noDelay: true })
  await new Promise<void>((resolve, reject) => socket.once('connect', resolve).once('error', reject))
  let text = ''
  let waiting: { resolve(body: string): void; reject(error: Error): void } | null = null
  socket.setEncoding('latin1')
  socket.on('data', (chunk: string) => {
    text += chunk
    const end = text.indexOf('\r\n\r\n')
    if (end < 0) return
    const length = Number(/content-length: (\d+)/i.exec(text)?.[1])
    if (text.length < end + 4 + length) return
    const [status, body] = [text.slice(9, 12), text.slice(end + 4)]
    text = ''
    const answered = waiting
    waiting = null
    if (status.startsWith('2')) answered?.resolve(body)
    else answered?.reject(new Error(`${status} ${body}`))
  })
  socket.on('error', (error) => waiting?.reject(error))
  const send = (request: string) =>
    new Promise<string>((resolve, reject) => {
      waiting = { resolve, reject }
      socket.write(request)
    })
  return {
    post: (path, body) =>
      send(
        `POST ${path} HTTP/1.1\r\nhost: ${host}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
      ),
    get: (path) => send(`GET ${path} HTTP/1.1\r\nhost: ${host}\r\n\r\n`),
    close: () => socket.destroy(),
  }
}
