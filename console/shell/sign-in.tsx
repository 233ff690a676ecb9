import { useState, useSyncExternalStore } from 'react'
import { currentQuestion, signIn, subscribeToQuestion } from '../api/session.ts'
import { Button, TextField } from '../design/controls.tsx'
import { Dialog } from '../design/overlay.tsx'

/** Asks for a credential when the service requires one. Requests that wait go on with the answer. */
export function SignIn() {
  const question = useSyncExternalStore(subscribeToQuestion, currentQuestion)
  const [entered, setEntered] = useState('')
  const send = () => {
    signIn(entered)
    setEntered('')
  }
  return (
    <Dialog
      title="This installation requires a credential"
      description={
        <>
          Your entry stays in this tab and ends with it. A key is sent as <code>X-Api-Key</code>, an access
          token of your identity provider (<code>eyJ…</code>) as a bearer token.
        </>
      }
      isOpen={question !== null}
      onClose={() => {}}
    >
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault()
          send()
        }}
      >
        <TextField
          label="API key or access token"
          type="password"
          autoComplete="off"
          spellCheck={false}
          required
          value={entered}
          problem={question?.problem}
          onChange={(event) => setEntered(event.target.value)}
        />
        <footer>
          <Button type="submit" kind="primary">
            Continue
          </Button>
        </footer>
      </form>
    </Dialog>
  )
}
