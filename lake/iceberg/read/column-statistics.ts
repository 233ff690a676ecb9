// Statistics of the columns of a table, from the metrics of its data files. Deleted rows count, because the files hold them.

import { type BoundValue, compareBounds, decoded } from '../format/bounds.ts'
import type { ColumnMetrics, DataFile } from '../format/data-file.ts'
import { columnsOf, fieldsOf, type NestedField, type Schema } from '../format/types.ts'
import { valueText } from '../format/value-text.ts'

/** A null means that a file does not state the value. */
export interface ColumnStatistics {
  readonly name: string
  /** The DuckDB type. */
  readonly type: string
  readonly nullCount: number | null
  /** At most the smallest value, and at least the largest value. Writers cut long texts. */
  readonly min: string | null
  readonly max: string | null
  /** The compressed size in the files that state it; null when no file does. */
  readonly sizeBytes: number | null
}

/** Sums the statistics of the top-level columns of a schema over files. */
export class StatisticsOfColumns {
  readonly #columns: { readonly own: ColumnTotals; readonly name: string; readonly type: string }[]

  constructor(schema: Schema) {
    const types = columnsOf(schema)
    this.#columns = schema.fields.map((field, index) => ({
      own: new ColumnTotals(field),
      name: field.name,
      type: types[index]?.type ?? '',
    }))
  }

  add(file: DataFile): void {
    for (const { own } of this.#columns) own.add(file)
  }

  result(): ColumnStatistics[] {
    return this.#columns.map(({ own, name, type }) => ({ name, type, ...own.result() }))
  }
}

/** The totals of one column. An undefined total is unknown, because a file does not state it. */
class ColumnTotals {
  readonly #id: number
  readonly #type: string
  /** The column itself, and the columns nested in it. */
  readonly #ids: readonly number[]
  #nullCount: number | undefined = 0
  #sizeBytes: number | undefined
  #min: Bound = NO_VALUE
  #max: Bound = NO_VALUE

  constructor(field: NestedField) {
    this.#id = field.id
    this.#type = typeof field.type === 'string' ? field.type : ''
    this.#ids = [...fieldsOf({ type: 'struct', fields: [field] })].map(({ id }) => id)
  }

  add({ columns, recordCount }: DataFile): void {
    for (const id of this.#ids) {
      const size = columns.get(id)?.sizeBytes
      if (size !== undefined) this.#sizeBytes = (this.#sizeBytes ?? 0) + size
    }
    const metrics: ColumnMetrics = columns.get(this.#id) ?? {}
    const { nullCount } = metrics
    this.#nullCount =
      nullCount === undefined || this.#nullCount === undefined ? undefined : this.#nullCount + nullCount
    if (recordCount === 0 || nullCount === recordCount) return
    this.#min = least(this.#min, this.#decoded(metrics.lower), 1)
    this.#max = least(this.#max, this.#decoded(metrics.upper), -1)
  }

  result(): Omit<ColumnStatistics, 'name' | 'type'> {
    return {
      nullCount: this.#nullCount ?? null,
      min: this.#text(this.#min),
      max: this.#text(this.#max),
      sizeBytes: this.#sizeBytes ?? null,
    }
  }

  #decoded(bytes: Uint8Array | undefined): BoundValue | undefined {
    return this.#type === '' || bytes === undefined ? undefined : decoded(this.#type, bytes)
  }

  #text(bound: Bound): string | null {
    return bound === undefined || bound === NO_VALUE ? null : valueText(this.#type, bound)
  }
}

const NO_VALUE = null
/** A bound of all files so far. Undefined: a file has values and no bound. */
type Bound = BoundValue | undefined | typeof NO_VALUE

/** The least of two bounds, or the greatest with direction -1. */
function least(bound: Bound, next: BoundValue | undefined, direction: 1 | -1): Bound {
  if (bound === undefined || next === undefined) return undefined
  return bound === NO_VALUE || compareBounds(next, bound) * direction < 0 ? next : bound
}
