import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { requestRun, runRequestOf } from '../../api/runs.ts'
import { Button, Checkbox } from '../../design/controls.tsx'
import { Card, CodeBlock } from '../../design/surfaces.tsx'
import { performing } from '../../design/toasts.tsx'
import { PipelineField } from '../../fields/suggestions.tsx'

/** Requests a run whose result stays on the branch. */
export function RunOnBranch({ branch }: { branch: string }) {
  const [pipeline, setPipeline] = useState('')
  const [isDraft, setDraft] = useState(false)
  const [isBusy, setBusy] = useState(false)
  const [run, setRun] = useState<string | null>(null)
  const [ns = '', layer = '', name = ''] = pipeline.split('.')
  const at = { ns, layer, name }
  const more = { branch, ...(isDraft && { draft: true }) }
  const start = async () => {
    setBusy(true)
    await performing(requestRun(at, more).then(setRun), 'The run is requested')
    setBusy(false)
  }
  return (
    <Card title="Run a pipeline on this branch">
      <div className="stack">
        <form
          className="row run-on-branch"
          onSubmit={(event) => {
            event.preventDefault()
            void start()
          }}
        >
          <PipelineField label="Pipeline" value={pipeline} onChange={setPipeline} />
          <Checkbox
            label="Use the draft"
            checked={isDraft}
            onChange={(event) => setDraft(event.target.checked)}
          />
          <Button type="submit" icon="runs" disabled={isBusy}>
            Run on the branch
          </Button>
          {run && (
            <Link to="/runs/$id" params={{ id: run }}>
              Open the run
            </Link>
          )}
        </form>
        <details>
          <summary>The same through the API</summary>
          <CodeBlock
            label="Request"
            code={`POST /api/v1/runs\n${JSON.stringify(runRequestOf(at, more), null, 2)}`}
          />
        </details>
      </div>
    </Card>
  )
}
