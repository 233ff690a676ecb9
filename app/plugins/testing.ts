// Plugins for tests: real servers whose answers the test controls.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { testLog } from '../composition/test-app.ts'
import { systemClock } from '../core/clock.ts'
import { type Channel, type ChannelDeps, makeChannel, type PluginKind } from './channel.ts'

export const PLUGIN_TOKEN = 'a-token-that-plugins-know-us-by'

interface Question {
  /** `AuthService/Authenticate` */
  method: string
  headers: IncomingMessage['headers']
  body: string
}

export type AnswerOf = (response: ServerResponse, question: Question) => void

export interface TestPlugin {
  url: string
  asked: Question[]
  /** How the plugin answers from now on. */
  answer: AnswerOf
  stop(): Promise<void>
}

export async function startTestPlugin(answer: AnswerOf = (response) => response.end()): Promise<TestPlugin> {
  const server = createServer((request, response) => {
    let body = ''
    request.setEncoding('utf8')
    request.on('data', (chunk) => {
      body += chunk
    })
    request.on('end', () => {
      const method = (request.url ?? '').replace(/^.*\.(\w+\/\w+)$/, '$1')
      const question = { method, headers: request.headers, body }
      plugin.asked.push(question)
      plugin.answer(response, question)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const plugin: TestPlugin = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked: [],
    answer,
    async stop() {
      server.closeAllConnections()
      await new Promise<void>((resolve) => server.close(() => resolve()))
    },
  }
  return plugin
}

/** A well-formed answer of a plugin. */
export const says =
  (message: unknown): AnswerOf =>
  (response) => {
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(typeof message === 'string' ? message : JSON.stringify(message))
  }

export const channelTo = (url: string, kind: PluginKind = 'auth', deps: Partial<ChannelDeps> = {}): Channel =>
  makeChannel(
    { kind, url, token: PLUGIN_TOKEN },
    { log: testLog, clock: systemClock, observe: () => {}, ...deps },
  )
