import type { TableName } from '../../../ground/names.ts'

/** A text for the engine, with the tables and zones that ref() and landing_zone() have inserted. */
export interface ReadText {
  language: 'sql' | 'python'
  /** The namespace of the pipeline. */
  namespace: string
  tables: readonly TableName[]
  /** Zone by the path that landing_zone() returns. */
  zones: ReadonlyMap<string, string>
}

/** A text that the engine has rejected, and the same text with the paths of its zones in quotes. */
export interface RefusedText extends ReadText {
  sql: string
  /** Null: the text names no landing zone. */
  quotedSql: string | null
}
