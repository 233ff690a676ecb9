import type { UseQueryResult } from '@tanstack/react-query'
import { type ReactNode, useEffect, useState } from 'react'
import { ApiError, messageOf } from '../api/errors.ts'
import { Button } from './controls.tsx'
import type { IconName } from './icons.tsx'
import { Empty, Notice, Skeleton } from './surfaces.tsx'

/** A quick answer shows no skeleton. */
const QUICK_MS = 150
/** A slow answer says that it is slow. */
const SLOW_MS = 5_000

/** The thing has gone, or the right to see it. */
export const isGone = (error: unknown) =>
  error instanceof ApiError && (error.status === 403 || error.status === 404)

/**
 * Shows a skeleton, the designed state of an error, or the data of a query. Data that was loaded once stays visible while a
 * later request fails, with a notice above it, unless the thing has gone.
 */
export function Loaded<Data>({
  query,
  lines,
  isKept = false,
  children,
}: {
  query: UseQueryResult<Data>
  lines?: number
  /** The data stays even when the thing has gone, because a person has written something there. */
  isKept?: boolean
  children: (data: Data) => ReactNode
}) {
  const retry = () => void query.refetch()
  if (query.data !== undefined && (isKept || !isGone(query.error)))
    return (
      <>
        {query.isError && (
          <Notice
            tone="warn"
            actions={
              <Button size="small" onClick={retry}>
                Try again
              </Button>
            }
          >
            This may be out of date: {messageOf(query.error)}
          </Notice>
        )}
        {children(query.data)}
      </>
    )
  if (query.isError) return <ErrorState error={query.error} retry={retry} />
  return <Waiting lines={lines} />
}

export function Waiting({ lines }: { lines?: number | undefined }) {
  const [phase, setPhase] = useState<'quick' | 'waiting' | 'slow'>('quick')
  useEffect(() => {
    const timers = [
      setTimeout(() => setPhase('waiting'), QUICK_MS),
      setTimeout(() => setPhase('slow'), SLOW_MS),
    ]
    return () => timers.forEach(clearTimeout)
  }, [])
  if (phase === 'quick') return null
  return (
    <div>
      <Skeleton lines={lines ?? 4} />
      {phase === 'slow' && <p className="muted card-body">The service is slow to answer. Still waiting…</p>}
    </div>
  )
}

interface Design {
  icon: IconName
  title: string
  text: string
}

/** The state of a place whose data did not arrive. */
export function ErrorState({ error, retry }: { error: unknown; retry?: () => void }) {
  const { icon, title, text } = designOf(error)
  return (
    <div role="alert">
      <Empty icon={icon} title={title} actions={retry && <Button onClick={retry}>Try again</Button>}>
        {text}
      </Empty>
    </div>
  )
}

/** Icon, title and text of an error; the title follows from the status. */
export function designOf(error: unknown): Design {
  if (!(error instanceof ApiError))
    return { icon: 'warn', title: 'This part of the page failed', text: messageOf(error) }
  const { status, message, retryAfter } = error
  if (error.isLost)
    return {
      icon: 'system',
      title: 'No connection to the service',
      text: 'The console tries again by itself. Check the network, and that the service runs.',
    }
  if (status === 403) return { icon: 'key', title: 'Not allowed', text: message }
  if (status === 404) return { icon: 'search', title: 'Not found', text: message }
  if (status === 429)
    return {
      icon: 'retention',
      title: 'Too many requests',
      text: retryAfter === null ? message : `The service accepts more requests in ${retryAfter} s.`,
    }
  if (status === 503) return { icon: 'system', title: 'Unavailable at the moment', text: message }
  if (status >= 500) return { icon: 'warn', title: 'The service failed', text: message }
  return { icon: 'warn', title: 'The request was refused', text: message }
}
