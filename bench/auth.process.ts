// Copies of the HTTP application in one process, which differ in who may come in. Says where they are.
import { AUDIENCE, startTestIssuer } from '../app/auth/testing.ts'
import { testApp } from '../app/test-app.ts'

const API_KEY = 'a-key-of-a-machine-0123456789'
const provider = await startTestIssuer()
const oidc = {
  issuer: provider.issuer,
  audience: AUDIENCE,
  clockSkewSeconds: 30,
  rolesClaim: 'roles',
  admins: [],
}
const key = `x-api-key: ${API_KEY}\r\n`
const token = `authorization: Bearer ${await provider.token({ roles: ['writer'] })}\r\n`
const modes = {
  none: { app: testApp({}), header: '' },
  'none, a key is sent': { app: testApp({}), header: key },
  'API key': { app: testApp({ config: { apiKey: API_KEY } }), header: key },
  'none, a token is sent': { app: testApp({}), header: token },
  'access token, cached': { app: testApp({ config: { oidc } }), header: token },
}
const places = Object.entries(modes).map(([name, { app, header }]) => {
  const server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: (request) => app.fetch(request) })
  return { name, port: server.port, header }
})
console.log(JSON.stringify(places))
process.stdin.once('end', () => process.exit(0)).resume()
