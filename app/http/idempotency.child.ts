import { openDatabase } from '../../drizzle/client.ts'
import { answerOnce } from './idempotency.ts'

// idempotency.test.ts starts this and kills it during a request: `bun idempotency.child.ts <database> <key> <id>`.

const [url = '', key = '', id = ''] = process.argv.slice(2)
const { sql } = openDatabase(url, { connections: 1, rawConnections: 2, application: 'test child' })
await answerOnce(
  sql,
  { caller: '', operation: 'POST /api/v1/runs', key, requestHash: 'a' },
  {
    prepare: async () => null,
    perform: async (tx) => {
      await tx`insert into secret (name, value) values (${id}, 'crashed')`
      process.stdout.write('half performed\n')
      return new Promise<null>(() => setInterval(() => {}, 1000))
    },
  },
)
