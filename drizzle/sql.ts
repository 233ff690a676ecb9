import type { PendingQuery, Row, TransactionSql } from 'postgres'

/** Raw SQL on any connection of a pool. */
export type { Sql } from 'postgres'
/** Raw SQL within one transaction. */
export type SqlTx = TransactionSql
/** A fragment of a statement. Never await a fragment: `await` executes it. */
export type Part = PendingQuery<Row[]>
