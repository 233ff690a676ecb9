// Parts of the console whose code is a file of its own. A file that does not arrive never leaves the page: the place of the part says
// so and offers another try. TanStack's `lazyRouteComponent` loads the whole page again instead, which ends it without a network.
import { CatchBoundary, useRouter } from '@tanstack/react-router'
import { type ComponentType, Suspense, use, useCallback, useEffect, useState } from 'react'
import { messageOf } from '../api/errors.ts'
import { isQuiet } from '../api/queries.ts'
import { CONSOLE } from '../api/request.ts'
import { Button } from '../design/controls.tsx'
import { ErrorState, Waiting } from '../design/loaded.tsx'
import { Empty } from '../design/surfaces.tsx'

/** The code of a part did not arrive. */
class PartNotLoaded extends Error {
  constructor(
    /** Asks for the code again. Rejects if it does not arrive. */
    readonly load: () => Promise<void>,
    cause: unknown,
  ) {
    super(`code of this part not loaded: ${messageOf(cause)}`, { cause })
  }
}

/** All parts so far. A part that is loaded may add others. */
const parts: (() => Promise<void>)[] = []

/** A component that is loaded when it is first shown, or by `preload`. */
export function lazyPart<Props extends object>(load: () => Promise<{ default: ComponentType<Props> }>) {
  let Loaded: ComponentType<Props> | undefined
  let loading: Promise<void> | undefined
  /** The shown part waits for this promise. A rejected one stays until another try. */
  let shown: Promise<void> | undefined
  const preload = () => {
    loading ??= load().then(
      (module) => {
        Loaded = module.default
      },
      (cause) => {
        loading = undefined
        throw new PartNotLoaded(again, cause)
      },
    )
    return loading
  }
  const again = async () => {
    await preload()
    shown = undefined
  }
  parts.push(preload)
  function Content(props: Props) {
    if (Loaded === undefined) {
      shown ??= preload()
      use(shown)
    }
    return Loaded && <Loaded {...props} />
  }
  const Part = (props: Props) => (
    <CatchBoundary getResetKey={() => 'part'} errorComponent={PartError}>
      <Suspense fallback={<Waiting />}>
        <Content {...props} />
      </Suspense>
    </CatchBoundary>
  )
  return Object.assign(Part, { preload })
}

/** The place of a part that failed: its code did not arrive, or it threw an error. */
export function PartError({ error, reset }: { error: unknown; reset: () => void }) {
  return error instanceof PartNotLoaded ? (
    <NotLoaded error={error} reset={reset} />
  ) : (
    <ErrorState error={error} retry={reset} />
  )
}

function NotLoaded({ error, reset }: { error: PartNotLoaded; reset: () => void }) {
  const router = useRouter()
  const [isOutdated, setOutdated] = useState(false)
  const retry = useCallback(async () => {
    try {
      await error.load()
    } catch {
      setOutdated(await hasNewVersion())
      return
    }
    await router.invalidate()
    reset()
  }, [error, reset, router])
  useEffect(() => {
    const left = new AbortController()
    addEventListener('online', () => void retry(), { signal: left.signal })
    void hasNewVersion().then((isNew) => !left.signal.aborted && setOutdated(isNew))
    return () => left.abort()
  }, [retry])
  if (isOutdated)
    return (
      <Empty
        icon="refresh"
        title="The service has a new version of the console"
        actions={<Button onClick={() => location.reload()}>Load the new version</Button>}
      >
        This page belongs to the earlier version, which the service no longer has. Save open texts in other
        tabs first.
      </Empty>
    )
  return (
    <div role="alert">
      <Empty
        icon="system"
        title="This page could not be loaded"
        actions={<Button onClick={() => void retry()}>Try again</Button>}
      >
        No answer from the service: you may be offline. The console tries again when the network is back.
      </Empty>
    </div>
  )
}

/** Whether the service answers, and with another version of the console than this page has. */
async function hasNewVersion(): Promise<boolean> {
  const own = document.querySelector<HTMLScriptElement>('script[type=module]')?.src.split('/').at(-1)
  const page = await fetch(CONSOLE).catch(() => undefined)
  return own !== undefined && page?.ok === true && !(await page.text()).includes(own)
}

/** Loads all parts, one after the other, while the browser has nothing else to do. A later page then needs no network. */
export async function preloadParts(): Promise<void> {
  for (let next = 0; next < parts.length; next++) {
    // The data of the shown page goes first.
    do await idle()
    while (!isQuiet())
    // A part that does not arrive now is loaded when it is shown.
    await parts[next]?.().catch(() => {})
  }
}

const idle = () =>
  new Promise<void>((resolve) => {
    // Safari has no requestIdleCallback.
    if ('requestIdleCallback' in window) requestIdleCallback(() => resolve())
    else setTimeout(resolve)
  })
