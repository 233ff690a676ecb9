// The same on Fastify and Node.
import fastify from 'fastify'

const { headers, body } = JSON.parse(process.env.ANSWER ?? '{}')
const app = fastify()
app.get('/health', (_, reply) => reply.headers(headers).send(body))
console.log(`${await app.listen({ port: 0, host: '127.0.0.1' })}/`)
