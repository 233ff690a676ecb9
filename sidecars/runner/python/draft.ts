import { type TableName, tableKey } from '../../../ground/names.ts'
import { NameError, parseTableName, zoneSelection } from '../../../lake/pipeline/names.ts'
import { pythonReferences } from '../../../lake/pipeline/references.ts'
import type { Template } from '../../../lake/pipeline/template.ts'
import type { Dialect } from '../engine/sql-names.ts'
import type { Draft } from '../session/inputs.ts'

/** Python names tables and zones by its functions. */
const PYTHON: Dialect = { engine: 'duckdb', landing: null }

/** The tables and zones that a Python source names in quotes. An invalid name fails when the source uses it. */
export function pythonDraft(template: Template, namespace: string): Draft {
  const tables = new Map<string, TableName>()
  const zones = new Set<string>()
  for (const { function: called, argument, pattern } of pythonReferences(template.source))
    try {
      if (called === 'landing_zone') zones.add(zoneSelection(argument, pattern))
      else {
        const table = parseTableName(argument, namespace)
        tables.set(tableKey(table), table)
      }
    } catch (error) {
      if (!(error instanceof NameError)) throw error
    }
  const dialect = PYTHON
  return { template, dialect, sql: '', tables: [...tables.values()], zones: [...zones] }
}
