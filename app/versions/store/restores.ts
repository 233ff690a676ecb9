// A commit of main that gives one table another content. Typed queries, because a rollback changes code in the same transaction.
import { and, eq, gt, isNull, lte, min, or } from 'drizzle-orm'
import type { Queryable, Tx } from '../../../drizzle/client.ts'
import { rulesOfTable } from '../../../drizzle/protection.ts'
import { only } from '../../../drizzle/rows.ts'
import { lakeCommits, lakeContents, lakeRefs, mainEntries } from '../../../drizzle/schema/catalog.ts'
import type { Review } from '../../../drizzle/schema/namespace.ts'
import { type TableName, tableKey } from '../../../ground/names.ts'
import { type Decision, isAllowed, strictest } from '../../protection/rule.ts'

export type LakeContent = typeof lakeContents.$inferSelect

/** The content of a table of main at a commit, or now when `commit` is null; null when main has no such table there. */
export async function contentAt(
  db: Queryable,
  table: TableName,
  commit: number | null,
): Promise<(LakeContent & { fromCommit: number }) | null> {
  const isThen =
    commit === null
      ? isNull(mainEntries.toCommit)
      : and(
          lte(mainEntries.fromCommit, commit),
          or(isNull(mainEntries.toCommit), gt(mainEntries.toCommit, commit)),
        )
  const [row] = await db
    .select({ content: lakeContents, fromCommit: mainEntries.fromCommit })
    .from(mainEntries)
    .innerJoin(lakeContents, eq(lakeContents.id, mainEntries.contentId))
    .where(and(isTable(table), isThen))
  return row ? { ...row.content, fromCommit: row.fromCommit } : null
}

/** The oldest kept commit of main that changed a table; null when there is none. */
export async function oldestCommitOf(db: Queryable, table: TableName): Promise<number | null> {
  const [row] = await db
    .select({ oldest: min(mainEntries.fromCommit) })
    .from(mainEntries)
    .where(isTable(table))
  return row?.oldest ?? null
}

const isTable = ({ namespace, layer, name }: TableName) =>
  and(eq(mainEntries.namespace, namespace), eq(mainEntries.layer, layer), eq(mainEntries.name, name))

interface ContentCommit {
  id: string
  table: TableName
  /** Null: the table keeps its content. */
  content: typeof lakeContents.$inferInsert | null
  /** The content that the new one was computed from. */
  replaced: string
  /** The earlier content whose files the new one uses. */
  source: string
  message: string
  author: string | null
  decision: Decision
}

type ContentCommitOutcome =
  | { kind: 'committed'; commit: number }
  /** The table has changed, or retention has removed the source. */
  | { kind: 'outdated' }
  /** Main is protected: the rule of the table demands another decision. */
  | { kind: 'protected'; rule: Review }

/**
 * Commits a content to main and returns the number of the commit that the table has then, or writes nothing. The lock on main
 * orders this commit with merges and with the reaper.
 */
export async function commitContent(tx: Tx, commit: ContentCommit): Promise<ContentCommitOutcome> {
  const { id, table, content, replaced, source, message, author, decision } = commit
  const main = only(
    await tx
      .select({ number: lakeRefs.number })
      .from(lakeRefs)
      .where(eq(lakeRefs.name, 'main'))
      .for('update'),
  )
  const head = main.number ?? 0
  const live = await contentAt(tx, table, null)
  const kept = await tx.$count(mainEntries, and(isTable(table), eq(mainEntries.contentId, source)))
  if (live?.id !== replaced || kept === 0) return { kind: 'outdated' }
  if (content === null) return { kind: 'committed', commit: live.fromCommit }
  const rule = strictest(await rulesOfTable(tx, table))
  if (!isAllowed(rule, decision)) return { kind: 'protected', rule }
  const number = head + 1
  await tx.insert(lakeContents).values(content)
  await tx
    .insert(lakeCommits)
    .values({ id, ref: 'main', number, base: head, message, author, tables: [tableKey(table)] })
  await tx
    .update(mainEntries)
    .set({ toCommit: number })
    .where(and(isTable(table), isNull(mainEntries.toCommit)))
  await tx.insert(mainEntries).values({ ...table, contentId: content.id, fromCommit: number })
  await tx.update(lakeRefs).set({ number, head: id }).where(eq(lakeRefs.name, 'main'))
  return { kind: 'committed', commit: number }
}
