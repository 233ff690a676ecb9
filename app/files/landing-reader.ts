/** The DuckDB function that makes rows of a landing file. */
export type LandingReader = 'read_csv_auto' | 'read_json_auto' | 'read_parquet'

/** The function for a file by its extension. Files with other extensions are read as CSV. */
export function landingReaderOf(filename: string): LandingReader {
  if (/\.parquet$/i.test(filename)) return 'read_parquet'
  return /\.(json|jsonl|ndjson)(\.gz|\.zst)?$/i.test(filename) ? 'read_json_auto' : 'read_csv_auto'
}

/** The starter query on a zone: all rows of its files. */
export const landingQuery = (reader: LandingReader, zone: string): string =>
  `select *\nfrom ${reader}('{{ landing_zone("${zone}") }}')\n`
