import { testMigrations } from './test-migrations.ts'

testMigrations(1_000)
