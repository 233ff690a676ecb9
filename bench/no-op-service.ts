// Starts the whole service with a no-op runner over Connect in a separate process.
import postgres from 'postgres'
import { startService } from '../tools/service/service.ts'
import { clientOf, databaseUrlOf, startServer } from './client.ts'
import { listenToRuns } from './news.ts'

export type NoOpService = Awaited<ReturnType<typeof startNoOpService>>

export async function startNoOpService() {
  const runner = await startServer('runner.process.ts')
  const service = await startService({ LOG_FORMAT: 'text', RUNNER_URLS: runner.url, QUERY_URLS: 'none' })
  const databaseUrl = databaseUrlOf(service.dataDir)
  const sql = postgres(databaseUrl, { max: 4, onnotice: () => {} })
  return {
    sql,
    databaseUrl,
    url: service.url,
    dataDir: service.dataDir,
    news: await listenToRuns(sql),
    ...clientOf(service.url),
    async stop() {
      await sql.end()
      await service.stop()
      await runner.stop()
    },
  }
}
