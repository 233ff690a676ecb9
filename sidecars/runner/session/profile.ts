import { basename } from 'node:path'
import { type Static, Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { counted } from '../../core/amounts.ts'

// The engine's profile of one execution, for people: a tree of operators with their rows and times.

export interface Profile {
  /** Peak size of the engine's buffers. */
  memoryPeakBytes: number
  /** Peak size of the spilled data. */
  diskPeakBytes: number
  operators: number
  /** One line per operator, and below it the engine's details. */
  tree: string
}

const Operator = Type.Recursive((Self) =>
  Type.Object({
    operator_name: Type.String(),
    operator_cardinality: Type.Number(),
    operator_timing: Type.Number(),
    extra_info: Type.Record(Type.String(), Type.Union([Type.String(), Type.Array(Type.String())])),
    children: Type.Array(Self),
  }),
)
type Operator = Static<typeof Operator>

const profileOf = TypeCompiler.Compile(
  Type.Object({
    system_peak_buffer_memory: Type.Number({ minimum: 0 }),
    system_peak_temp_dir_size: Type.Number({ minimum: 0 }),
    children: Type.Array(Operator),
  }),
)

/** Operators shown of a larger plan. */
const OPERATORS_SHOWN = 500
/** Characters shown of a list of values or a long condition. */
const DETAIL_CHARACTERS = 300

/** Parses the profile that the engine wrote. Throws for a text of an unknown format. */
export function readProfile(text: string): Profile {
  const profile: unknown = JSON.parse(text)
  if (!profileOf.Check(profile)) throw new Error('the profile of the engine has an unknown format')
  const lines: string[] = []
  let operators = 0
  const show = (operator: Operator, first: string, rest: string) => {
    operators += 1
    if (operators <= OPERATORS_SHOWN) {
      lines.push(first + headOf(operator))
      const { children } = operator
      const stem = children.length > 0 ? '│ ' : '  '
      lines.push(...detailsOf(operator).map((detail) => `${rest}${stem}${detail}`))
    }
    for (const [index, child] of operator.children.entries()) {
      const isLast = index === operator.children.length - 1
      show(child, `${rest}${isLast ? '└─ ' : '├─ '}`, `${rest}${isLast ? '   ' : '│  '}`)
    }
  }
  for (const operator of profile.children) show(operator, '', '')
  if (operators > OPERATORS_SHOWN) lines.push(`... ${operators - OPERATORS_SHOWN} more operators`)
  return {
    memoryPeakBytes: profile.system_peak_buffer_memory,
    diskPeakBytes: profile.system_peak_temp_dir_size,
    operators,
    tree: lines.join('\n'),
  }
}

const headOf = ({ operator_name: name, operator_cardinality: rows, operator_timing: seconds }: Operator) =>
  `${name.trim()}  ${counted(rows, 'row')}, ${(seconds * 1_000).toFixed(2)} ms`

const detailsOf = ({ extra_info: info }: Operator): string[] =>
  Object.entries(info)
    .map(
      ([key, value]) => [key, [value].flat().map(key === 'Filename(s)' ? withoutFolders : String)] as const,
    )
    .filter(([, values]) => values.some((value) => value !== ''))
    .map(([key, values]) => `${key}: ${shortened(values.join(', ').replaceAll('\n', ', '))}`)

/** Hides the directories of this machine. */
const withoutFolders = (paths: string) =>
  paths
    .split(/,\s*/)
    .map((path) => basename(path))
    .join(', ')

const shortened = (text: string) =>
  text.length <= DETAIL_CHARACTERS ? text : `${text.slice(0, DETAIL_CHARACTERS)}…`
