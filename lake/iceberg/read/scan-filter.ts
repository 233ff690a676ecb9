// Reads the filters on table scans from a plan of the engine. The plan comes from `json_serialize_plan`, so types, names, casts
// and collations are already resolved. A part that is not understood becomes a step that every row may pass.

import { jsonText } from '../../engine/parser.ts'
import type { BoundValue } from '../format/bounds.ts'
import { parseJson } from '../format/json.ts'

export const COMPARISONS = ['=', '<', '<=', '>', '>='] as const
export type Comparison = (typeof COMPARISONS)[number]

/** One step of a filter. `column` is the index of a top-level column in the table's schema. */
type FilterStep = Condition | { op: 'and' | 'or'; count: number }

/** A step without operands. */
export type Condition =
  | { op: 'any' }
  | { op: 'compare'; column: number; comparison: Comparison; value: BoundValue }
  | { op: 'in'; column: number; values: BoundValue[] }
  | { op: 'isNull' | 'isNotNull'; column: number }

/** A filter in postfix order: `and` and `or` combine the results of the last `count` steps. */
export type ScanFilter = FilterStep[]

/** A table by the names in the plan. */
interface ScannedTable {
  readonly catalog: string
  readonly schema: string
  readonly name: string
}

/**
 * The filter of each table, in order. A table that is scanned several times gets the disjunction. Null: the plan has no scan of
 * the table, or a scan without a filter that is understood.
 */
export function scanFilters(plan: string, tables: readonly ScannedTable[]): (ScanFilter | null)[] {
  const filtersOf = new Map(tables.map((table) => [keyOf(table), [] as ScanFilter[]]))
  visitScans(parseJson(jsonText(plan)), (scan, conditions) => {
    const data = part(scan, 'function_data')
    const name = {
      catalog: String(part(data, 'catalog')),
      schema: String(part(data, 'schema')),
      name: String(part(data, 'table')),
    }
    filtersOf.get(keyOf(name))?.push(filterOf(scan, conditions))
  })
  return tables.map((table) => {
    const filters = filtersOf.get(keyOf(table)) ?? []
    const filter = combined('or', filters)
    return filters.length === 0 || isAny(filter) ? null : filter
  })
}

const keyOf = ({ catalog, schema, name }: ScannedTable): string => JSON.stringify([catalog, schema, name])

/** Visits every scan, with the conditions of a filter that stands directly on the scan. */
function visitScans(plan: unknown, visit: (scan: unknown, conditions: readonly unknown[]) => void): void {
  const open: unknown[] = [plan]
  for (let node = open.pop(); node !== undefined; node = open.pop()) {
    if (typeof node !== 'object' || node === null) continue
    const [child] = listOf(part(node, 'children'))
    if (part(node, 'type') === 'LOGICAL_FILTER' && part(child, 'type') === 'LOGICAL_GET') {
      visit(child, listOf(part(node, 'expressions')))
      // A table function can have children, and a condition can have subqueries.
      open.push(part(child, 'children') ?? null, part(node, 'expressions') ?? null)
      continue
    }
    if (part(node, 'type') === 'LOGICAL_GET') visit(node, [])
    for (const value of Object.values(node)) open.push(value ?? null)
  }
}

/** The columns of a scan, for conditions on them. */
interface Scope {
  readonly types: readonly unknown[]
  /** The column that a reference means; undefined when the reference means no whole top-level column. */
  columnOf(reference: unknown): number | undefined
}

function filterOf(scan: unknown, conditions: readonly unknown[]): ScanFilter {
  const types = listOf(part(scan, 'returned_types'))
  const columns = listOf(part(scan, 'column_indexes')).map((entry) =>
    listOf(part(entry, 'child_indexes')).length === 0 ? columnIn(types, part(entry, 'index')) : undefined,
  )
  // A projection would change the numbers of the columns above the scan.
  const isPlain = listOf(part(scan, 'projection_ids')).length === 0
  const above: Scope = {
    types,
    columnOf: (reference) => (isPlain ? columns[Number(part(reference, 'index'))] : undefined),
  }
  const pushed = listOf(part(part(scan, 'table_filters'), 'filters')).map((entry) => {
    const column = columnIn(types, part(entry, 'key'))
    return column === undefined ? ANY : pushedFilter(part(entry, 'value'), column, types)
  })
  return combined('and', [...pushed, ...conditions.map((condition) => expressionFilter(condition, above))])
}

/** Row ids and other virtual columns have numbers above all columns. */
const columnIn = (types: readonly unknown[], index: unknown): number | undefined =>
  typeof index === 'number' && index < types.length ? index : undefined

const ANY: ScanFilter = [{ op: 'any' }]
const isAny = (filter: ScanFilter): boolean => filter[0]?.op === 'any'

function combined(op: 'and' | 'or', filters: readonly ScanFilter[]): ScanFilter {
  if (op === 'or' && filters.some(isAny)) return ANY
  const useful = filters.filter((filter) => !isAny(filter))
  const [first = ANY] = useful
  return useful.length < 2 ? first : [...useful.flat(), { op, count: useful.length }]
}

/** A filter that the optimizer moved into the scan. It concerns one column. */
function pushedFilter(filter: unknown, column: number, types: readonly unknown[]): ScanFilter {
  const children = () =>
    listOf(part(filter, 'child_filters')).map((child) => pushedFilter(child, column, types))
  switch (part(filter, 'filter_type')) {
    case 'CONSTANT_COMPARISON':
      return compared(column, part(filter, 'comparison_type'), part(filter, 'constant'), types)
    case 'IN_FILTER':
      return within(column, listOf(part(filter, 'values')), types)
    case 'IS_NULL':
      return [{ op: 'isNull', column }]
    case 'IS_NOT_NULL':
      return [{ op: 'isNotNull', column }]
    case 'CONJUNCTION_AND':
      return combined('and', children())
    case 'CONJUNCTION_OR':
      return combined('or', children())
    case 'OPTIONAL_FILTER':
      return pushedFilter(part(filter, 'child_filter'), column, types)
    case 'EXPRESSION_FILTER':
      return expressionFilter(part(filter, 'expr'), { types, columnOf: () => column })
    default:
      return ANY
  }
}

/** `isNegated`: the filter of rows for which the expression is false. */
function expressionFilter(expression: unknown, scope: Scope, isNegated = false): ScanFilter {
  const children = listOf(part(expression, 'children'))
  const type = part(expression, 'type')
  switch (part(expression, 'expression_class')) {
    case 'BOUND_CONJUNCTION': {
      const isAnd = (type === 'CONJUNCTION_AND') !== isNegated
      return combined(
        isAnd ? 'and' : 'or',
        children.map((child) => expressionFilter(child, scope, isNegated)),
      )
    }
    case 'BOUND_COMPARISON':
      return comparisonFilter(expression, scope, isNegated)
    case 'BOUND_BETWEEN':
      return isNegated ? ANY : betweenFilter(expression, scope)
    case 'BOUND_REF': {
      const column = scope.columnOf(expression)
      return column === undefined ? ANY : [{ op: 'compare', column, comparison: '=', value: !isNegated }]
    }
    case 'BOUND_OPERATOR':
      if (type === 'OPERATOR_NOT') return expressionFilter(children[0], scope, !isNegated)
      return operatorFilter(type, children, scope, isNegated)
    default:
      return ANY
  }
}

function operatorFilter(
  type: unknown,
  [first, ...others]: readonly unknown[],
  scope: Scope,
  isNegated: boolean,
): ScanFilter {
  const column = referredColumn(first, scope)
  if (column === undefined) return ANY
  if (type === 'OPERATOR_IS_NULL') return [{ op: isNegated ? 'isNotNull' : 'isNull', column }]
  if (type === 'OPERATOR_IS_NOT_NULL') return [{ op: isNegated ? 'isNull' : 'isNotNull', column }]
  if (type !== 'COMPARE_IN' || isNegated) return ANY
  return within(column, others.map(constantOf), scope.types)
}

const referredColumn = (expression: unknown, scope: Scope): number | undefined =>
  part(expression, 'expression_class') === 'BOUND_REF' ? scope.columnOf(expression) : undefined

const constantOf = (expression: unknown): unknown =>
  part(expression, 'expression_class') === 'BOUND_CONSTANT' ? part(expression, 'value') : undefined

const COMPARISON_OF: Readonly<Record<string, Comparison>> = {
  COMPARE_EQUAL: '=',
  COMPARE_NOT_DISTINCT_FROM: '=',
  COMPARE_LESSTHAN: '<',
  COMPARE_LESSTHANOREQUALTO: '<=',
  COMPARE_GREATERTHAN: '>',
  COMPARE_GREATERTHANOREQUALTO: '>=',
}
/** The comparison with exchanged sides. */
const FLIPPED: Readonly<Record<string, string>> = {
  COMPARE_LESSTHAN: 'COMPARE_GREATERTHAN',
  COMPARE_LESSTHANOREQUALTO: 'COMPARE_GREATERTHANOREQUALTO',
  COMPARE_GREATERTHAN: 'COMPARE_LESSTHAN',
  COMPARE_GREATERTHANOREQUALTO: 'COMPARE_LESSTHANOREQUALTO',
}
const NEGATED: Readonly<Record<string, string>> = {
  COMPARE_NOTEQUAL: 'COMPARE_EQUAL',
  COMPARE_LESSTHAN: 'COMPARE_GREATERTHANOREQUALTO',
  COMPARE_LESSTHANOREQUALTO: 'COMPARE_GREATERTHAN',
  COMPARE_GREATERTHAN: 'COMPARE_LESSTHANOREQUALTO',
  COMPARE_GREATERTHANOREQUALTO: 'COMPARE_LESSTHAN',
}

function comparisonFilter(expression: unknown, scope: Scope, isNegated: boolean): ScanFilter {
  const [left, right] = [part(expression, 'left'), part(expression, 'right')]
  const written = String(part(expression, 'type'))
  const type = isNegated ? NEGATED[written] : written
  if (type === undefined) return ANY
  const column = referredColumn(left, scope)
  if (column !== undefined) return compared(column, type, constantOf(right), scope.types)
  const other = referredColumn(right, scope)
  if (other === undefined) return ANY
  return compared(other, FLIPPED[type] ?? type, constantOf(left), scope.types)
}

function betweenFilter(expression: unknown, scope: Scope): ScanFilter {
  const column = referredColumn(part(expression, 'input'), scope)
  if (column === undefined) return ANY
  const [lower, upper] = [constantOf(part(expression, 'lower')), constantOf(part(expression, 'upper'))]
  // An exclusive bound passes a few rows more, which is allowed.
  return combined('and', [
    compared(column, 'COMPARE_GREATERTHANOREQUALTO', lower, scope.types),
    compared(column, 'COMPARE_LESSTHANOREQUALTO', upper, scope.types),
  ])
}

function compared(
  column: number,
  comparisonType: unknown,
  constant: unknown,
  types: readonly unknown[],
): ScanFilter {
  const comparison = COMPARISON_OF[String(comparisonType)]
  const value = boundValueOf(constant, types[column])
  return comparison === undefined || value === undefined || value === null
    ? ANY
    : [{ op: 'compare', column, comparison, value }]
}

function within(column: number, constants: readonly unknown[], types: readonly unknown[]): ScanFilter {
  const values: BoundValue[] = []
  for (const constant of constants) {
    const value = boundValueOf(constant, types[column])
    if (value === undefined) return ANY
    // No value is equal to NULL.
    if (value !== null) values.push(value)
  }
  return [{ op: 'in', column, values }]
}

/** The value of a constant; undefined when the constant has another type than its column, or a type without bounds. */
function boundValueOf(constant: unknown, columnType: unknown): BoundValue | null | undefined {
  const type = part(constant, 'type')
  if (type === undefined || typeText(type) !== typeText(columnType)) return undefined
  if (part(constant, 'is_null') === true) return null
  const value = part(constant, 'value')
  switch (part(type, 'id')) {
    case 'BOOLEAN':
      return typeof value === 'boolean' ? value : undefined
    case 'INTEGER':
    case 'DATE':
    case 'DOUBLE':
      return isNumeric(value) ? Number(value) : undefined
    case 'FLOAT':
      return isNumeric(value) ? Math.fround(Number(value)) : undefined
    case 'BIGINT':
    case 'TIME':
    case 'TIMESTAMP':
    case 'TIMESTAMP WITH TIME ZONE':
    case 'DECIMAL':
      return isNumeric(value) ? BigInt(value) : undefined
    case 'VARCHAR':
      return typeof value === 'string' ? value : undefined
    case 'UUID':
      return uuidBytes(part(value, 'upper'), part(value, 'lower'))
    default:
      return undefined
  }
}

const isNumeric = (value: unknown): value is number | bigint =>
  typeof value === 'number' || typeof value === 'bigint'

/** The engine stores a UUID as a signed number of 128 bits, with the first bit flipped. */
function uuidBytes(upper: unknown, lower: unknown): Uint8Array | undefined {
  if (!isNumeric(upper) || !isNumeric(lower)) return undefined
  const view = new DataView(new ArrayBuffer(16))
  view.setBigInt64(0, BigInt(upper) ^ -(2n ** 63n))
  view.setBigUint64(8, BigInt(lower))
  return new Uint8Array(view.buffer)
}

/** Types with equal texts have equal values. */
const typeText = (type: unknown): string => {
  const info = part(type, 'type_info')
  return `${part(type, 'id')}(${part(info, 'width')},${part(info, 'scale')})`
}

const part = (value: unknown, name: string): unknown =>
  typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined
const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])
