import type postgres from 'postgres'

/** Raw SQL on any connection of a pool. */
export type Sql = postgres.Sql
/** And within one transaction. */
export type SqlTx = postgres.TransactionSql
