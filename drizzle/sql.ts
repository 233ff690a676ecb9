import type { PendingQuery, Row, TransactionSql } from 'postgres'

/** Raw SQL on any connection of a pool. */
export type { Sql } from 'postgres'
/** And within one transaction. */
export type SqlTx = TransactionSql
/** Of a statement. Never await a part: that performs it. */
export type Part = PendingQuery<Row[]>
