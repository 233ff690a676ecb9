import { useSyncExternalStore } from 'react'
import { type Caller, callerOf, currentCredential, signOut, subscribeToSession } from '../api/session.ts'
import { Button } from '../design/controls.tsx'
import { Icon } from '../design/icons.tsx'

/** The caller of this tab; null without a credential. */
export const useCaller = (): Caller | null =>
  callerOf(useSyncExternalStore(subscribeToSession, currentCredential))

/** The name of the person of this tab, with a button that signs out. */
export function SignedIn() {
  const caller = useCaller()
  if (caller === null) return null
  return (
    <span className="row signed-in">
      <Icon name="key" />
      <span className="ellipsis grow" title={caller.id || caller.name}>
        {caller.name}
      </span>
      <Button size="small" kind="quiet" onClick={signOut}>
        Sign out
      </Button>
    </span>
  )
}
