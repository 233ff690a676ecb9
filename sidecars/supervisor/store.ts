import type { Sql } from 'postgres'

/** The major version of the server, such as 18. */
export async function majorVersionOf(sql: Sql): Promise<number> {
  const [row] = await sql`select current_setting('server_version_num')::int / 10000 as major`
  return row?.major
}
