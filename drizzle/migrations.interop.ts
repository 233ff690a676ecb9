// The long way of drizzle/migrations.test.ts: what takes long with many rows, or runs out of something, does so here.
import { testMigrations } from './test-migrations.ts'

testMigrations(100_000)
