// A copy of a position delete file whose rows name the data files below another root.

import { quoteLiteral } from '../../quote.ts'
import { CODEC } from '../format/layout.ts'
import { LAKE_PREFIX } from '../format/location.ts'
import { POSITION_FIELDS, requiredPosition } from '../read/table-sql.ts'
import { fieldIdsLiteral, parquetScan } from '../sql.ts'

export interface PositionsCopy {
  /** The local path of the original file. */
  from: string
  to: string
  root: string
}

/**
 * `check` fails for a file that no reader can read. So an error of `copy` is a fault of this machine, such as a full disk.
 * `bounds` returns the first and the last location in the copy.
 */
export function relocatePositionsSql({ from, to, root }: PositionsCopy) {
  const [location, position] = [requiredPosition('d.c0', 'file_path'), requiredPosition('d.c1', 'pos')]
  const scan = `${parquetScan(POSITION_FIELDS, [from])} d`
  const moved = `regexp_replace(${location}, '^.*?/${LAKE_PREFIX}', ${quoteLiteral(`${root}${LAKE_PREFIX}`)})`
  return {
    check: `SELECT count(${location}), count(${position}) FROM ${scan}`,
    copy: `COPY (SELECT ${moved} AS file_path, ${position} AS pos FROM ${scan} ORDER BY ALL)
           TO ${quoteLiteral(to)} (FORMAT parquet, COMPRESSION ${CODEC}, FIELD_IDS ${fieldIdsLiteral(POSITION_FIELDS)})`,
    bounds: `SELECT min(file_path), max(file_path) FROM read_parquet(${quoteLiteral(to)})`,
  }
}
