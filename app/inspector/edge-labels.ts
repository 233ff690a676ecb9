import type { Definition, Detail, StateDefinition, TransitionDefinition } from './schema.ts'

export interface LabelLine {
  /** All transitions that this line describes. */
  transitions: TransitionDefinition[]
  kind: 'event' | 'guard' | 'effects'
  text: string
  /** The guard after the text, on the same line; empty without a guard. */
  guard: string
}

/** Width of a monospaced letter relative to its size, for the widest of the usual fonts. */
const MONO = 0.605

export const LABEL = { eventSize: 11, effectsSize: 10, eventHeight: 15, effectsHeight: 13, padX: 5, padY: 3 }

export interface EdgeLabel {
  x: number
  y: number
  width: number
  height: number
  points: Point[]
  lines: LabelLine[]
  bundle: Bundle
}

export interface Group {
  id: string
  parent: string | null
  members: string[]
}

/** Minimum numbers of states, and of transitions that these states share, for a group. */
const GROUP_MEMBERS = 2

const GROUP_WAYS = 3

/** At most one group per parent: the group that saves the most arrows. */
export function commonGroups({ states, transitions }: Definition): Group[] {
  const parents = new Set(states.map(({ parent }) => parent))
  return [...parents].flatMap((parent): Group[] => {
    const children = states.filter((state) => state.parent === parent && state.kind === 'atomic')
    const paths = new Set(children.map(({ path }) => path))
    const leaving = transitions.filter(({ from }) => paths.has(from))
    const bySignature = Map.groupBy(leaving, signatureOf)
    const byMembers = Map.groupBy(bySignature.values(), (same) => same.map(({ from }) => from).join(' '))
    const worth = [...byMembers]
      .map(([members, ways]) => ({ members: members.split(' '), ways }))
      .filter(
        ({ members, ways }) =>
          members.length >= GROUP_MEMBERS &&
          ways.length >= GROUP_WAYS &&
          ways.every(([way]) => way !== undefined && !members.includes(way.to)),
      )
      .sort((a, b) => b.ways.length * b.members.length - a.ways.length * a.members.length)
    const [best] = worth
    return best === undefined ? [] : [{ id: `group ${parent ?? ''}`, parent, members: best.members }]
  })
}

const signatureOf = ({ event, to, guard, updates, effects }: TransitionDefinition) =>
  [event, to, guard, updates, effects].join('|')

interface Bundle {
  from: { path: string; leaves: string[] }
  to: string
  transitions: TransitionDefinition[][]
  weight: number
}

/** Transitions with the same ends share an arrow. A transition that all members of a group have is labelled once. */
export function bundled(transitions: TransitionDefinition[], groups: Group[]): Bundle[] {
  const shared = new Map<string, Group>()
  for (const group of groups) {
    const leaving = transitions.filter(({ from }) => group.members.includes(from))
    for (const same of Map.groupBy(leaving, signatureOf).values())
      if (same.length === group.members.length) for (const { id } of same) shared.set(id, group)
  }
  const ways = Map.groupBy(transitions, ({ id, from, to }) => `${shared.get(id)?.id ?? from} -> ${to}`)
  return [...ways.values()].flatMap((way): Bundle[] => {
    const [first] = way
    if (first === undefined) return []
    const group = shared.get(first.id)
    return [
      {
        from: { path: group?.id ?? first.from, leaves: group?.members ?? [] },
        to: first.to,
        transitions: [...Map.groupBy(way, signatureOf).values()],
        weight: outermost(first.from) === outermost(first.to) ? INNER_WEIGHT : 1,
      },
    ]
  })
}

/** Maximum number of letters in a line. Narrow labels make narrow drawings. */
const LINE_LETTERS = 24

export const linesOf = (transitions: TransitionDefinition[][], detail: Detail): LabelLine[] =>
  transitions.flatMap((same): LabelLine[] => {
    const [first] = same
    if (first === undefined || detail === 'states') return []
    const guard = first.guard === null ? '' : `[${first.guard}]`
    const fits = first.event.length + 1 + guard.length <= LINE_LETTERS
    const line = (kind: LabelLine['kind'], text: string, behind = ''): LabelLine => ({
      transitions: same,
      kind,
      text,
      guard: behind,
    })
    return [
      line('event', first.event, fits ? guard : ''),
      ...(fits ? [] : [line('guard', guard)]),
      ...(detail === 'full'
        ? wrapped([...first.updates, ...first.effects]).map((text) => line('effects', text))
        : []),
    ]
  })

/** `/ one, two,`, and further names on the lines below. */
function wrapped(names: readonly string[]): string[] {
  const lines: string[] = []
  for (const [index, name] of names.entries()) {
    const text = index < names.length - 1 ? `${name},` : name
    const last = lines.at(-1)
    if (last === undefined) lines.push(`/ ${text}`)
    else if (last.length + 1 + text.length > LINE_LETTERS) lines.push(text)
    else lines[lines.length - 1] = `${last} ${text}`
  }
  return lines
}

export function sizeOf(lines: readonly LabelLine[]) {
  if (lines.length === 0) return { width: 0, height: 0 }
  const widths = lines.map(
    ({ text, guard, kind }) =>
      (text.length + (guard === '' ? 0 : guard.length + 1)) *
      MONO *
      (kind === 'effects' ? LABEL.effectsSize : LABEL.eventSize),
  )
  const heights = lines.map(heightOf)
  return {
    width: Math.max(...widths) + 2 * LABEL.padX,
    height: heights.reduce((sum, height) => sum + height, 0) + 2 * LABEL.padY,
  }
}

export const heightOf = ({ kind }: LabelLine) =>
  kind === 'effects' ? LABEL.effectsHeight : LABEL.eventHeight

/** dagre supports no arrows from or to boxes with content. So an arrow joins a state inside, and is cut at the border. */
export function representative(states: readonly StateDefinition[], path: string): string {
  const inner = states.find(({ parent, initial }) => parent === path && initial)
  return inner === undefined ? path : representative(states, inner.path)
}

export interface Point {
  x: number
  y: number
}

/** Arrows within one outermost state stay short, at the cost of arrows between outermost states. */
const INNER_WEIGHT = 4

const outermost = (path: string) => path.split('.')[0]
