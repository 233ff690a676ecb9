import { useMemo } from 'react'
import { type PlanNode, planOf } from './plan-tree.ts'

/** The plan of a query as a tree. Rows flow from the leaves to the top. */
export function Plan({ text }: { text: string }) {
  const root = useMemo(() => planOf(text), [text])
  if (root === null) return <PlanText text={text} />
  return (
    <div className="stack">
      <section className="plan" tabIndex={0} aria-label="Plan of the query">
        <ul>
          <Operator node={root} />
        </ul>
      </section>
      <details>
        <summary>Text of the plan</summary>
        <PlanText text={text} />
      </details>
    </div>
  )
}

const PlanText = ({ text }: { text: string }) => (
  <pre className="plan-text" tabIndex={0} aria-label="Text of the plan">
    {text}
  </pre>
)

const Operator = ({ node: { name, details, rows, time, children } }: { node: PlanNode }) => (
  <li>
    <div className="operator">
      <b>{name}</b>
      {details.map((line, index) => (
        <span key={index} className="mono">
          {line}
        </span>
      ))}
      {(rows !== null || time !== null) && (
        <span className="muted">{[rows, time].filter((part) => part !== null).join(' · ')}</span>
      )}
    </div>
    {children.length > 0 && (
      <ul>
        {children.map((child, index) => (
          <Operator key={index} node={child} />
        ))}
      </ul>
    )}
  </li>
)
