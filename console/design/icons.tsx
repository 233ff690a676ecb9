// The icons of the console, drawn on a grid of 16. Each is decoration: the text beside it, or the label of its button, says what
// it means.
import type { ReactNode } from 'react'

const PATHS = {
  overview: 'M2 2h5v6H2zM9 2h5v3H9zM9 7h5v7H9zM2 10h5v4H2z',
  pipelines: 'M2 4h4v3H2zM10 9h4v3h-4zM6 5.5h3v5h1M10 2h4v3h-4zM6 5.5h2.5v-2H10',
  runs: 'M5 3l7 5-7 5z',
  inspector: 'M2 2.5h5v3H2zM9 10.5h5v3H9zM4.5 5.5V12H9M7 4h4.5v6.5M10 9l1.5 1.5L13 9',
  lineage:
    'M3 3.5a1.5 1.5 0 1 0 0 .01M3 12.5a1.5 1.5 0 1 0 0 .01M13 8a1.5 1.5 0 1 0 0 .01M4.5 3.5C9 3.5 7 8 11.5 8M4.5 12.5C9 12.5 7 8 11.5 8',
  lake: 'M2 4c2-2 4 2 6 0s4 2 6 0M2 8c2-2 4 2 6 0s4 2 6 0M2 12c2-2 4 2 6 0s4 2 6 0',
  branches: 'M4 2v12M4 10c0-4 8-2 8-6M12 4a1.5 1.5 0 1 0 0-.01',
  query: 'M2 3h12v10H2zM4.5 6l2 2-2 2M8 10.5h3.5',
  landing: 'M8 2v7M5 6.5L8 9.5l3-3M2 10v4h12v-4',
  audit: 'M4 2h8v12H4zM6 5h4M6 8h4M6 11h2',
  retention: 'M8 2a6 6 0 1 0 .01 0M8 5v3.5l2.5 1.5',
  sharing: 'M6 5a2 2 0 1 0 0-.01M2 13c0-3 8-3 8 0M11 7.5h3M12.5 6v3',
  system: 'M2 3h12v4H2zM2 9h12v4H2zM4.5 5h.01M4.5 11h.01',
  settings: 'M3 4h6M12 4h1M9 2.5v3M3 8h1M7 8h6M7 6.5v3M3 12h7M13 12h0M10 10.5v3',
  search: 'M7 3a4 4 0 1 0 .01 0M10 10l3.5 3.5',
  menu: 'M2 4h12M2 8h12M2 12h12',
  close: 'M4 4l8 8M12 4l-8 8',
  check: 'M3 8.5l3.5 3.5L13 4.5',
  cross: 'M4 4l8 8M12 4l-8 8',
  warn: 'M8 2l6.5 12h-13zM8 6.5v3.5M8 12h.01',
  more: 'M3.5 8h.01M8 8h.01M12.5 8h.01',
  copy: 'M5 5h8v9H5zM3 11V2h8',
  plus: 'M8 3v10M3 8h10',
  minus: 'M3 8h10',
  fit: 'M2 6V2h4M10 2h4v4M14 10v4h-4M6 14H2v-4',
  down: 'M4 6l4 4 4-4',
  right: 'M6 4l4 4-4 4',
  left: 'M10 4L6 8l4 4',
  sun: 'M8 5a3 3 0 1 0 .01 0M8 1.5v1M8 13.5v1M1.5 8h1M13.5 8h1M3.5 3.5l.7.7M11.8 11.8l.7.7M3.5 12.5l.7-.7M11.8 4.2l.7-.7',
  moon: 'M13 9.5A5.5 5.5 0 0 1 6.5 3 5.5 5.5 0 1 0 13 9.5z',
  key: 'M10.5 3a2.5 2.5 0 1 0 .01 0M8.5 7L3 12.5V14h2v-1.5h1.5V11L9 8.5',
  download: 'M8 2v7M5 6.5L8 9.5l3-3M3 13h10',
  refresh: 'M13 8a5 5 0 1 1-1.5-3.5L13 6M13 2.5V6H9.5',
  external: 'M6 3H3v10h10v-3M9 3h4v4M13 3L7 9',
  chart: 'M2 14h12M4 12V8M8 12V4M12 12V6',
  history: 'M3 8a5 5 0 1 0 1.5-3.5L3 6M3 2.5V6h3.5M8 5.5V8l2 1.5',
} as const

export type IconName = keyof typeof PATHS

export function Icon({ name, size = 16 }: { name: IconName; size?: number }): ReactNode {
  return (
    <svg
      className="icon"
      width={size}
      height={size}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.5"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
    >
      <path d={PATHS[name]} />
    </svg>
  )
}
