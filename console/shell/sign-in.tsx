import { useEffect, useState, useSyncExternalStore } from 'react'
import { ApiError, messageOf } from '../api/errors.ts'
import { signIn } from '../api/request.ts'
import { currentQuestion, subscribeToSession } from '../api/session.ts'
import { Button, TextField } from '../design/controls.tsx'
import { Dialog } from '../design/overlay.tsx'

/**
 * Asks for a credential when the service requires one. The page stays below the dialog with all texts in it, and requests that
 * wait are sent again with the new credential.
 */
export function SignIn() {
  const question = useSyncExternalStore(subscribeToSession, currentQuestion)
  const [entered, setEntered] = useState('')
  const [problem, setProblem] = useState('')
  const [isBusy, setBusy] = useState(false)
  useEffect(() => setProblem(question?.problem ?? ''), [question])
  const send = async () => {
    setBusy(true)
    try {
      await signIn(entered)
      setEntered('')
    } catch (error) {
      setProblem(problemOf(error))
    } finally {
      setBusy(false)
    }
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
    >
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault()
          void send()
        }}
      >
        <TextField
          label="API key or access token"
          type="password"
          autoComplete="off"
          spellCheck={false}
          required
          value={entered}
          problem={problem}
          onChange={(event) => setEntered(event.target.value)}
        />
        <footer>
          <Button type="submit" kind="primary" disabled={isBusy}>
            {isBusy ? 'Checking…' : 'Continue'}
          </Button>
        </footer>
      </form>
    </Dialog>
  )
}

const problemOf = (error: unknown): string =>
  error instanceof ApiError && error.status === 401
    ? `This key or token is refused: ${error.message}.`
    : messageOf(error)
