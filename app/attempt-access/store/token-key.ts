import type { Sql } from '../../../drizzle/client.ts'

/** The key that signs attempt tokens. Throws when the database holds none. */
export async function attemptTokenKey(sql: Sql): Promise<string> {
  const [secret] = await sql<{ value: string }[]>`select value from secret where name = 'attempt_token'`
  if (secret === undefined)
    throw new Error('the table secret has no row attempt_token: restore it from a backup')
  return secret.value
}
