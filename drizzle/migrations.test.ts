import { testMigrations } from './test-migrations.ts'

testMigrations(200)
