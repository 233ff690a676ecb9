import { useState, useSyncExternalStore } from 'react'
import { Button, IconButton, TextField } from '../../design/controls.tsx'
import { Card, Empty } from '../../design/surfaces.tsx'

// Queries that this browser keeps: their texts only, never rows or credentials.

const ENTRY = 'sluice-queries'
const HISTORY_MAX = 50
const SAVED_MAX = 200

interface Kept {
  history: string[]
  saved: { name: string; sql: string }[]
}

const NOTHING: Kept = { history: [], saved: [] }
const listeners = new Set<() => void>()
let kept = read()
/** False after the browser has refused to store the queries. */
let isStored = true

function read(): Kept {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(ENTRY) ?? 'null')
    return typeof stored === 'object' && stored !== null ? { ...NOTHING, ...stored } : NOTHING
  } catch {
    return NOTHING
  }
}

function show(next: Kept): void {
  kept = next
  for (const listener of listeners) listener()
}

/** Changes what the browser keeps now: another tab may have changed it. Full or blocked storage keeps it for this tab. */
function change(of: (before: Kept) => Kept): void {
  const next = of(isStored ? read() : kept)
  show(next)
  try {
    localStorage.setItem(ENTRY, JSON.stringify(next))
    isStored = true
  } catch {
    isStored = false
  }
}

addEventListener('storage', ({ key }: StorageEvent) => key === ENTRY && show(read()))

/** Puts a query at the front of the history. */
export const remember = (sql: string): void =>
  change((before) => ({
    ...before,
    history: [sql, ...before.history.filter((each) => each !== sql)].slice(0, HISTORY_MAX),
  }))

const subscribe = (listener: () => void) => {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

/** Saved queries and the history of this browser. */
export function Remembered({ sql, onOpen }: { sql: string; onOpen: (sql: string) => void }) {
  const { history, saved } = useSyncExternalStore(subscribe, () => kept)
  const [name, setName] = useState('')
  const save = () => {
    change((before) => {
      const others = before.saved.filter((each) => each.name !== name)
      return { ...before, saved: [{ name, sql }, ...others].slice(0, SAVED_MAX) }
    })
    setName('')
  }
  return (
    <div className="stack">
      <Card title="Saved queries">
        <form
          className="stack"
          onSubmit={(event) => {
            event.preventDefault()
            save()
          }}
        >
          <TextField
            label="Save this query as"
            required
            value={name}
            onChange={(event) => setName(event.target.value)}
          />
          <Button type="submit" size="small">
            Save
          </Button>
        </form>
        <ul className="kept">
          {saved.map((each) => (
            <li key={each.name}>
              <Button kind="quiet" size="small" title={each.sql} onClick={() => onOpen(each.sql)}>
                <span className="ellipsis">{each.name}</span>
              </Button>
              <IconButton
                icon="cross"
                size="small"
                label={`Forget ${each.name}`}
                onClick={() =>
                  change((before) => ({
                    ...before,
                    saved: before.saved.filter(({ name: other }) => other !== each.name),
                  }))
                }
              />
            </li>
          ))}
        </ul>
      </Card>
      <Card
        title="History"
        actions={
          history.length > 0 && (
            <Button
              size="small"
              kind="quiet"
              onClick={() => change((before) => ({ ...before, history: [] }))}
            >
              Clear
            </Button>
          )
        }
      >
        {history.length === 0 ? (
          <Empty icon="history" title="Nothing executed yet" />
        ) : (
          <ul className="kept">
            {history.map((each) => (
              <li key={each}>
                <Button kind="quiet" size="small" title={each} onClick={() => onOpen(each)}>
                  <span className="ellipsis mono">{each}</span>
                </Button>
              </li>
            ))}
          </ul>
        )}
      </Card>
    </div>
  )
}
