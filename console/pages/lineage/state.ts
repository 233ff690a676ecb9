import type { LineageNode } from '../../api/lineage.ts'

/** The state that the colour of a node shows. */
export type ColourBy = 'run' | 'tests'

interface State {
  text: string
  /** A colour of the design. */
  colour: string
}

const RUNS: Record<string, State> = {
  success: { text: 'success', colour: '--good' },
  failed: { text: 'failed', colour: '--bad' },
  running: { text: 'running', colour: '--busy' },
}
const TESTS = {
  passed: { text: 'tests passed', colour: '--good' },
  warned: { text: 'test warned', colour: '--warn' },
  failed: { text: 'test failed', colour: '--bad' },
}
const IDLE = '--idle'

/** The states that the legend names. */
export const LEGEND: Record<ColourBy, readonly State[]> = {
  run: [...Object.values(RUNS), { text: 'other or no run', colour: IDLE }],
  tests: [...Object.values(TESTS), { text: 'no test result', colour: IDLE }],
}

/** The state of a pipeline; null for a table and a landing zone, which have none. */
export function stateOf(node: LineageNode, by: ColourBy): State | null {
  if (node.type !== 'pipeline') return null
  if (by === 'run') {
    const status = node.latest_run?.status
    return RUNS[status ?? ''] ?? { text: status ?? 'no run', colour: IDLE }
  }
  const { quality } = node
  if (quality === null || quality.total === 0) return { text: 'no test result', colour: IDLE }
  if (quality.failed > 0) return TESTS.failed
  return quality.warned > 0 ? TESTS.warned : TESTS.passed
}
