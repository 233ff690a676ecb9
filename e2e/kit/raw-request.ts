import { connect } from 'node:net'

export interface RawResponse {
  status: number
  head: string
  body: string
}

/** Sends a request exactly as written. HTTP clients normalise paths and lengths; an attacker does not. */
export function rawRequest(
  baseUrl: string,
  lines: string[],
  body: string | Buffer = '',
): Promise<RawResponse> {
  const { hostname, port } = new URL(baseUrl)
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname)
    const chunks: Buffer[] = []
    socket.setTimeout(60_000, () => socket.destroy(new Error('the service sent no answer within 60 s')))
    socket.on('data', (chunk: Buffer) => chunks.push(chunk))
    socket.on('error', (error) => (chunks.length > 0 ? undefined : reject(error)))
    socket.on('close', () => {
      const [head = '', ...rest] = Buffer.concat(chunks).toString().split('\r\n\r\n')
      resolve({ status: Number(head.split(' ')[1] ?? 0), head, body: rest.join('\r\n\r\n') })
    })
    socket.write(`${lines.join('\r\n')}\r\nConnection: close\r\n\r\n`)
    if (body.length > 0) socket.write(body)
  })
}
