import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { api, ok } from '../../api/client.ts'
import { Button, Checkbox, Select } from '../../design/controls.tsx'
import { Loaded } from '../../design/loaded.tsx'
import { Card, CodeBlock, Empty } from '../../design/surfaces.tsx'
import { performing } from '../../design/toasts.tsx'

const PIPELINES_LISTED = '200'

interface Named {
  namespace: string
  layer: 'bronze' | 'silver' | 'gold'
  name: string
}

/** Requests a run whose result stays on the branch. */
export function RunOnBranch({ branch }: { branch: string }) {
  const query = useQuery({
    queryKey: ['pipelines', 'names', PIPELINES_LISTED],
    queryFn: () => ok(api.pipelines.get({ query: { limit: PIPELINES_LISTED } })),
  })
  return (
    <Card title="Run a pipeline on this branch">
      <Loaded query={query}>
        {({ pipelines }) =>
          pipelines.length === 0 ? (
            <Empty icon="pipelines" title="No pipeline yet" actions={<Link to="/pipelines">Make one</Link>} />
          ) : (
            <RunForm branch={branch} pipelines={pipelines} />
          )
        }
      </Loaded>
    </Card>
  )
}

function RunForm({ branch, pipelines }: { branch: string; pipelines: readonly Named[] }) {
  const [chosen, setChosen] = useState('0')
  const [isDraft, setDraft] = useState(false)
  const [run, setRun] = useState<string | null>(null)
  const pipeline = pipelines[Number(chosen)]
  if (pipeline === undefined) return null
  const { namespace, layer, name } = pipeline
  const body = {
    namespace,
    layer,
    pipeline: name,
    trigger: 'manual',
    branch,
    ...(isDraft && { draft: true }),
  }
  const start = () =>
    performing(
      ok(api.runs.post(body, { headers: {} })).then(({ run_id: id }) => setRun(id)),
      'The run is requested',
    )
  return (
    <div className="stack">
      <div className="row run-on-branch">
        <Select
          label="Pipeline"
          value={chosen}
          choices={pipelines.map((each, index) => ({
            value: String(index),
            label: `${each.namespace}.${each.layer}.${each.name}`,
          }))}
          onChange={setChosen}
        />
        <Checkbox
          label="Use the draft"
          checked={isDraft}
          onChange={(event) => setDraft(event.target.checked)}
        />
        <Button icon="runs" onClick={() => void start()}>
          Run on the branch
        </Button>
        {run && (
          <Link to="/runs/$id" params={{ id: run }}>
            Open the run
          </Link>
        )}
      </div>
      <details>
        <summary>The same through the API</summary>
        <CodeBlock label="Request" code={`POST /api/v1/runs\n${JSON.stringify(body, null, 2)}`} />
      </details>
    </div>
  )
}
