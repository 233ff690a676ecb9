import type { Counts, Definition, MachineName } from '../../api/inspector.ts'
import { count } from '../../design/format.ts'
import type { PillTone } from '../../design/status.tsx'

export const TITLES: Record<MachineName, string> = { run: 'Runs', draft: 'Drafts', trigger: 'Triggers' }

const TONES: Record<MachineName, Record<string, PillTone>> = {
  run: { pending: 'warn', running: 'busy', success: 'good', failed: 'bad', cancelled: 'idle' },
  draft: { unpublished: 'idle', clean: 'good', dirty: 'warn', deleted: 'idle' },
  trigger: { armed: 'good', cooling: 'warn', disabled: 'idle' },
}

/** The meaning of a state for its owner. */
export const toneOf = (machine: MachineName, path: string): PillTone =>
  TONES[machine][path.split('.')[0] ?? ''] ?? 'idle'

/** `running.executing` as people read it: the outer state in a weaker style, then the inner state. */
export function StatePill({ machine, path }: { machine: MachineName; path: string }) {
  const [outer, inner] = path.split('.')
  return (
    <span className="pill" data-tone={toneOf(machine, path)} data-state={path}>
      {inner === undefined ? (
        outer
      ) : (
        <span>
          <span className="outer-state">{outer}</span> {inner}
        </span>
      )}
    </span>
  )
}

type Counted = Counts[string]

/** `12`, or `10,000+` where counting stopped. */
export const countText = ({ count: value, more }: Counted): string => `${count(value)}${more ? '+' : ''}`

/** The number of instances in all of these states. */
export const sumOf = (counts: Counts, paths: readonly string[]): Counted =>
  paths.reduce<Counted>(
    (sum, path) => ({
      count: sum.count + (counts[path]?.count ?? 0),
      more: sum.more || (counts[path]?.more ?? false),
    }),
    { count: 0, more: false },
  )

/** The states that contain no other state. */
export const leavesOf = ({ states }: Definition): string[] =>
  states.filter(({ kind }) => kind !== 'compound').map(({ path }) => path)

export const isFinal = ({ states }: Definition, path: string): boolean =>
  states.some((state) => state.path === path && state.kind === 'final')
