import type { ReactNode } from 'react'

export type PillTone = 'good' | 'bad' | 'warn' | 'busy' | 'review' | 'idle'

export const Pill = ({ tone, children }: { tone: PillTone; children: ReactNode }) => (
  <span className="pill" data-tone={tone}>
    {children}
  </span>
)

const TONES: Record<string, PillTone> = {
  success: 'good',
  merged: 'good',
  passed: 'good',
  ready: 'good',
  ok: 'good',
  failed: 'bad',
  error: 'bad',
  running: 'busy',
  pending: 'idle',
  cancelled: 'idle',
  open: 'busy',
  review: 'review',
  warn: 'warn',
  warning: 'warn',
}

/** The status of a run, a branch, a test. A run in review says so. */
export function Status({ status, phase }: { status: string; phase?: string | null | undefined }) {
  const shown = status === 'running' && phase === 'review' ? 'review' : status
  return <Pill tone={TONES[shown] ?? 'idle'}>{shown === 'review' ? 'in review' : shown}</Pill>
}

export const Layer = ({ layer }: { layer: string }) => (
  <span className="layer" data-layer={layer}>
    {layer}
  </span>
)

export const Tag = ({ children }: { children: ReactNode }) => <span className="tag">{children}</span>
