import {
  type KeyboardEvent,
  type PointerEvent,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from 'react'
import { type Counts, DETAILS, type Detail, drawingPath, type MachineName } from '../../api/inspector.ts'
import { Button, IconButton, Segments } from '../../design/controls.tsx'
import { Card } from '../../design/surfaces.tsx'
import { saveAnswer } from '../../shell/save.ts'
import { Drawing, type Lit, sizeOf, stateAt, type View } from './drawing.ts'

/** Labels are unreadable below this scale. */
const READABLE = 0.72
const ZOOM = 1.35
/** A press that moves further than this, in units of the drawing, moves the drawing. */
const CLICK_MAX = 6
const LABELS: Record<Detail, string> = { states: 'States', events: 'Events', full: 'Full' }

/** The choices of the person. They stay while the person moves between a list and its instances. */
const chosen: { [Machine in MachineName]?: { detail?: Detail; view?: View; drawn?: string } } = {}

export interface ChartProps {
  machine: MachineName
  drawings: Record<Detail, string>
  title: string
  /** The sentence below the drawing. */
  caption: string
  lit: Lit
  /** Null: no numbers. */
  counts: Counts | null
  /** Gets the path of a clicked state. */
  onPick?: ((path: string) => void) | undefined
}

/** The statechart with its highlighted state. */
export function Chart({ machine, drawings, title, caption, lit, counts, onPick }: ChartProps) {
  const canvas = useRef<HTMLDivElement>(null)
  const [detail, setDetail] = useState(chosen[machine]?.detail)
  const [fitting, setFitting] = useState<Detail | null>(null)
  useLayoutEffect(() => {
    if (canvas.current !== null) setFitting(fittingOf(canvas.current, drawings))
  }, [drawings])
  const shown = detail ?? fitting
  const text = shown === null ? null : drawings[shown]
  const drawing = useMemo(() => (text === null ? null : new Drawing(machine, text)), [machine, text])
  const isPickable = onPick !== undefined
  const { active, taken } = lit

  useLayoutEffect(() => {
    if (drawing === null || text === null) return
    canvas.current?.replaceChildren(drawing.svg)
    const before = chosen[machine]
    if (before?.view !== undefined && before.drawn === text) drawing.show(before.view)
    return () => {
      chosen[machine] = { ...chosen[machine], view: drawing.view, drawn: text }
    }
  }, [drawing, machine, text])
  useLayoutEffect(
    () =>
      drawing?.setPickable(isPickable, `Statechart of a ${machine}${active === null ? '' : `: ${active}`}`),
    [drawing, isPickable, machine, active],
  )
  useLayoutEffect(() => drawing?.light({ active, taken }), [drawing, active, taken])
  useLayoutEffect(() => drawing?.count(counts), [drawing, counts])
  const moves = useMoves(drawing, onPick)
  useEffect(() => {
    const element = canvas.current
    const onWheel = (event: WheelEvent) => {
      if (drawing === null || !(event.ctrlKey || event.metaKey)) return
      event.preventDefault()
      drawing.zoom(Math.exp(-event.deltaY / 300), drawing.pointOf(event))
    }
    element?.addEventListener('wheel', onWheel, { passive: false })
    return () => element?.removeEventListener('wheel', onWheel)
  }, [drawing])

  const choose = (next: Detail) => {
    chosen[machine] = { detail: next }
    setDetail(next)
  }
  const saveChart = () => {
    const query = {
      detail: shown ?? 'full',
      ...(active !== null && { active }),
      ...(taken !== null && { taken }),
      ...(counts !== null && { counts: '1' }),
    }
    void saveAnswer(drawingPath(machine, query), `${machine}.svg`)
  }
  return (
    <div className="inspector-chart">
      <Card
        title={<span id="chart-title">{title}</span>}
        isFlush
        actions={
          <>
            <Segments
              label="Labels of arrows"
              choices={DETAILS.map((value) => ({ value, label: LABELS[value] }))}
              value={shown ?? 'states'}
              onChange={choose}
            />
            <span className="row zoom-buttons">
              <IconButton
                icon="minus"
                label="Zoom out"
                size="small"
                onClick={() => drawing?.zoom(1 / ZOOM)}
              />
              <IconButton
                icon="fit"
                label="Show the whole chart"
                size="small"
                onClick={() => drawing?.show(drawing.home)}
              />
              <IconButton icon="plus" label="Zoom in" size="small" onClick={() => drawing?.zoom(ZOOM)} />
            </span>
            <Button
              id="save-chart"
              size="small"
              icon="download"
              title="Save this statechart"
              onClick={saveChart}
            >
              SVG
            </Button>
          </>
        }
      >
        <div ref={canvas} id="canvas" className="chart-canvas" data-pickable={isPickable} {...moves} />
        <p className="chart-caption" id="caption">
          {caption}
        </p>
      </Card>
    </div>
  )
}

/** The most detailed level whose labels are readable in the available space. */
function fittingOf({ clientWidth, clientHeight }: HTMLElement, drawings: Record<Detail, string>): Detail {
  const isReadable = (detail: Detail) => {
    const { width, height } = sizeOf(drawings[detail])
    return Math.min(clientWidth / width, clientHeight / height) >= READABLE
  }
  return DETAILS.toReversed().find(isReadable) ?? 'states'
}

/** A press on a state picks the state, and a drag moves the drawing. */
function useMoves(drawing: Drawing | null, onPick: ChartProps['onPick']) {
  const drag = useRef<{ x: number; y: number; hasMoved: boolean } | null>(null)
  return {
    onPointerDown(event: PointerEvent) {
      if (drawing !== null && event.button === 0)
        drag.current = { ...drawing.pointOf(event), hasMoved: false }
    },
    onPointerMove(event: PointerEvent) {
      if (drawing === null || drag.current === null) return
      const { x, y } = drawing.pointOf(event)
      const [dx, dy] = [x - drag.current.x, y - drag.current.y]
      if (!drag.current.hasMoved && Math.hypot(dx, dy) < CLICK_MAX) return
      if (!drag.current.hasMoved) event.currentTarget.setPointerCapture(event.pointerId)
      drag.current.hasMoved = true
      drawing.show({ ...drawing.view, x: drawing.view.x - dx, y: drawing.view.y - dy })
    },
    onPointerUp(event: PointerEvent) {
      const path = stateAt(event.target)
      if (drag.current?.hasMoved === false && path !== undefined) onPick?.(path)
      drag.current = null
    },
    onPointerCancel() {
      drag.current = null
    },
    onKeyDown(event: KeyboardEvent) {
      const path = stateAt(event.target)
      if (path === undefined || (event.key !== 'Enter' && event.key !== ' ')) return
      event.preventDefault()
      onPick?.(path)
    },
  }
}
