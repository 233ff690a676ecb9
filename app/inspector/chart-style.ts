// The style of statecharts, both in the console and in saved drawings. Drawings name colours, because many programs that show SVG
// files do not support CSS variables.

interface Palette {
  paper: string
  ink: string
  muted: string
  line: string
  state: string
  stateLine: string
  compound: string
  nested: string
  active: string
  activeInk: string
  glow: string
  taken: string
}

const LIGHT: Palette = {
  paper: '#ffffff',
  ink: '#1a2233',
  muted: '#667085',
  line: '#9aa4b5',
  state: '#ffffff',
  stateLine: '#b9c1cf',
  compound: '#f6f8fb',
  nested: '#eef2f8',
  active: '#1f6feb',
  activeInk: '#ffffff',
  glow: '#1f6feb33',
  taken: '#c2410c',
}

const DARK: Palette = {
  paper: '#0f141c',
  ink: '#e6ebf4',
  muted: '#93a0b4',
  line: '#66748a',
  state: '#1b2330',
  stateLine: '#3c495e',
  compound: '#141b26',
  nested: '#19212e',
  active: '#4c8dff',
  activeInk: '#08111f',
  glow: '#4c8dff40',
  taken: '#fb923c',
}

/** The colours of the console, which follow the choice of the person. */
const CONSOLE: Palette = {
  paper: 'var(--surface)',
  ink: 'var(--text)',
  muted: 'var(--muted)',
  line: 'var(--line-strong)',
  state: 'var(--raised)',
  stateLine: 'var(--line-strong)',
  compound: 'var(--page)',
  nested: 'var(--sunken)',
  active: 'var(--accent)',
  activeInk: 'var(--on-accent)',
  glow: 'color-mix(in srgb, var(--accent) 25%, transparent)',
  taken: `light-dark(${LIGHT.taken}, ${DARK.taken})`,
}

const SANS =
  "'Inter', ui-sans-serif, system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
const MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace"

/** `scope` is the prefix of every selector. */
const coloured = (p: Palette, scope: string) => `
${scope} .paper { fill: ${p.paper}; }
${scope} .compound > rect { fill: ${p.compound}; stroke: ${p.stateLine}; }
${scope} .compound > text { fill: ${p.muted}; }
${scope} .group > rect { fill: ${p.nested}; stroke: ${p.line}; }
${scope} .state > rect { fill: ${p.state}; stroke: ${p.stateLine}; }
${scope} .state > text { fill: ${p.ink}; }
${scope} .way > path { stroke: ${p.line}; }
${scope} .way > .head { fill: ${p.line}; stroke: ${p.line}; }
${scope} .dot { fill: ${p.muted}; }
${scope} .label > rect { fill: ${p.paper}; }
${scope} .label.in > rect { fill: ${p.compound}; }
${scope} .event { fill: ${p.ink}; }
${scope} .guard, ${scope} .effects { fill: ${p.muted}; }
${scope} .badge > rect { fill: ${p.muted}; stroke: ${p.paper}; }
${scope} .badge > text { fill: ${p.paper}; }
${scope} .state.active > rect { fill: ${p.active}; stroke: ${p.active}; }
${scope} .state.active > text { fill: ${p.activeInk}; }
${scope} .state.active > .inner { stroke: ${p.activeInk}; }
${scope} .state.active > .halo { fill: ${p.glow}; stroke: none; }
${scope} .compound.active > rect { stroke: ${p.active}; }
${scope} .compound.active > text { fill: ${p.active}; }
${scope} .way.taken > path { stroke: ${p.taken}; }
${scope} .way.taken > .head { fill: ${p.taken}; stroke: ${p.taken}; }
${scope} .line.taken .event, ${scope} .line.taken .guard, ${scope} .line.taken .effects { fill: ${p.taken}; }`

const SHAPES = `
.chart text { font-family: ${SANS}; }
.chart .state > text { font-size: 13px; font-weight: 600; text-anchor: middle; }
.chart .compound > text { font-size: 12px; font-weight: 600; letter-spacing: .02em; }
.chart .line text { font-family: ${MONO}; text-anchor: middle; }
.chart .event { font-size: 11px; font-weight: 600; }
.chart .guard { font-size: 11px; font-weight: 400; }
.chart .effects { font-size: 10px; }
.chart .compound > rect { stroke-width: 1.2; }
.chart .group > rect { stroke-width: 1; stroke-dasharray: 4 4; }
.chart .state > rect { stroke-width: 1.4; }
.chart .state > .inner { fill: none; }
.chart .halo { display: none; }
.chart .state.active > .halo { display: inline; }
.chart .way > path { fill: none; stroke-width: 1.3; }
.chart .way.taken > path { stroke-width: 2.4; }
.chart .badge > rect { stroke-width: 2; }
.chart .badge > text { font-size: 11px; font-weight: 700; text-anchor: middle; }
.chart .badge.none { display: none; }
.chart .label > rect { fill-opacity: .86; }
`

/** The style of a standalone drawing: light, or dark if the reader prefers dark. */
export const drawingStyle = () =>
  `${SHAPES}${coloured(LIGHT, '.chart')}\n@media (prefers-color-scheme: dark) {${coloured(DARK, '.chart')}\n}\n`

/** The style of drawings in the console, which `npm run generate` writes to a style sheet of the console. */
export const consoleStyle = () =>
  `/* Written by tools/check/statecharts.ts. */${SHAPES}${coloured(CONSOLE, '.chart')}\n`
