import type { ReactNode } from 'react'
import { CopyButton } from './controls.tsx'
import { Icon, type IconName } from './icons.tsx'

/** A page: its heading, what can be done here, and its content. Sets the title of the tab. */
export function Page({
  title,
  crumbs,
  subtitle,
  actions,
  isWide = false,
  children,
}: {
  title: string
  /** The parents of the page, above its heading. */
  crumbs?: ReactNode
  subtitle?: ReactNode
  actions?: ReactNode
  isWide?: boolean
  children: ReactNode
}) {
  return (
    <div className="page" data-wide={isWide}>
      <title>{`${title} · Sluice`}</title>
      <header className="page-header">
        <div>
          {crumbs && <div className="crumbs">{crumbs}</div>}
          <h1>{title}</h1>
          {subtitle && <p>{subtitle}</p>}
        </div>
        {actions && <div className="row">{actions}</div>}
      </header>
      {children}
    </div>
  )
}

/** A bordered area with an optional heading. */
export function Card({
  title,
  actions,
  isFlush = false,
  children,
}: {
  title?: ReactNode
  actions?: ReactNode
  /** The content reaches the border, as tables do. */
  isFlush?: boolean
  children: ReactNode
}) {
  return (
    <section className="card">
      {(title || actions) && (
        <header>
          {title && <h2>{title}</h2>}
          {actions}
        </header>
      )}
      {isFlush ? children : <div className="card-body">{children}</div>}
    </section>
  )
}

type Tone = 'plain' | 'good' | 'bad' | 'warn' | 'busy'

const TONE_ICON: Record<Tone, IconName> = {
  plain: 'more',
  good: 'check',
  bad: 'warn',
  warn: 'warn',
  busy: 'runs',
}

export function Notice({
  tone = 'plain',
  actions,
  children,
}: {
  tone?: Tone
  actions?: ReactNode
  children: ReactNode
}) {
  return (
    <div className="notice" data-tone={tone} role={tone === 'bad' ? 'alert' : undefined}>
      <Icon name={TONE_ICON[tone]} />
      <div className="grow">{children}</div>
      {actions}
    </div>
  )
}

/** An empty place that says what belongs there and how it comes there. */
export function Empty({
  icon,
  title,
  children,
  actions,
}: {
  icon: IconName
  title: string
  children?: ReactNode
  actions?: ReactNode
}) {
  return (
    <div className="empty">
      <Icon name={icon} size={28} />
      <h3>{title}</h3>
      {children && <p>{children}</p>}
      {actions && <div className="row">{actions}</div>}
    </div>
  )
}

const WIDTHS = ['62%', '84%', '48%', '71%', '56%']

export function Skeleton({ lines = 4 }: { lines?: number }) {
  return (
    <div className="skeleton" role="status" aria-label="Loading">
      {Array.from({ length: lines }, (_, line) => (
        <span key={line} style={{ width: WIDTHS[line % WIDTHS.length] }} />
      ))}
    </div>
  )
}

/** Names and values. */
export function Facts({ facts }: { facts: readonly (readonly [name: string, value: ReactNode])[] }) {
  return (
    <dl className="facts">
      {facts.map(([name, value]) => (
        <FactRow key={name} name={name} value={value} />
      ))}
    </dl>
  )
}

const FactRow = ({ name, value }: { name: string; value: ReactNode }) => (
  <>
    <dt>{name}</dt>
    <dd>{value}</dd>
  </>
)

/** A text of a program that can be copied. */
export function CodeBlock({ code, label }: { code: string; label: string }) {
  return (
    <div className="code-block">
      <pre tabIndex={0} aria-label={label}>
        <code>{code}</code>
      </pre>
      <CopyButton text={code} />
    </div>
  )
}
