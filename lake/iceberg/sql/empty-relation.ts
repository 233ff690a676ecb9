import { quoteIdentifier } from '../../quote.ts'
import { parseDuckType, renderDuckType } from '../format/duckdb-type.ts'

/** A table expression with these columns and without rows. This suffices to bind SQL, or to list tables. */
export const emptyRelation = ({ columns }: { columns: readonly { name: string; type: string }[] }): string =>
  `(SELECT ${columns
    .map(
      ({ name, type }) =>
        `NULL::${renderDuckType(parseDuckType(type), quoteIdentifier)} AS ${quoteIdentifier(name)}`,
    )
    .join(', ')} WHERE false)`
