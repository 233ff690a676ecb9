import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { deletePipeline, folderOf, type Named, type Pipeline, publishDraft } from '../../api/pipelines.ts'
import { requestRun } from '../../api/runs.ts'
import { Button, Checkbox, TextField } from '../../design/controls.tsx'
import { FormDialog, Menu } from '../../design/overlay.tsx'
import { sayError } from '../../design/toasts.tsx'
import { BranchSelect } from '../../fields/branch-select.tsx'
import { discardAll, saveAll, useUnsaved } from './draft.ts'
import { RetentionDialog } from './retention.tsx'

type Asked = 'publish' | 'run' | 'retention' | 'delete' | null

/** Requests a run and opens its page. */
function useRun(at: Named) {
  const navigate = useNavigate()
  return async (more: { branch?: string; draft?: boolean } = {}) =>
    navigate({ to: '/runs/$id', params: { id: await requestRun(at, more) } })
}

/** Everything that can be done with a pipeline. */
export function PipelineActions({ at, pipeline }: { at: Named; pipeline: Pipeline }) {
  const navigate = useNavigate()
  const [asked, setAsked] = useState<Asked>(null)
  const close = () => setAsked(null)
  const isUnsaved = useUnsaved(folderOf(at))
  const { ns, layer, name } = at
  const hasNews = isUnsaved || pipeline.draft_dirty || pipeline.published_version === null
  return (
    <>
      <Button kind={hasNews ? 'primary' : 'plain'} icon="check" onClick={() => setAsked('publish')}>
        Publish
      </Button>
      <Button icon="runs" onClick={() => setAsked('run')}>
        Run
      </Button>
      <Menu
        label="More actions"
        items={[
          {
            label: 'Open its table',
            icon: 'lake',
            onSelect: () => void navigate({ to: '/lake/$ns/$layer/$name', params: at }),
          },
          { label: 'How long results stay', icon: 'retention', onSelect: () => setAsked('retention') },
          {
            label: 'Delete the pipeline',
            icon: 'cross',
            isDangerous: true,
            onSelect: () => setAsked('delete'),
          },
        ]}
      />
      <PublishDialog at={at} isOpen={asked === 'publish'} onClose={close} isUnsaved={isUnsaved} />
      <RunDialog at={at} pipeline={pipeline} isOpen={asked === 'run'} onClose={close} />
      <RetentionDialog at={at} isOpen={asked === 'retention'} onClose={close} />
      <FormDialog
        title={`Delete ${ns}.${layer}.${name}`}
        description="Its runs are cancelled and its files removed. Its table stays in the lake."
        isOpen={asked === 'delete'}
        onClose={close}
        submitLabel="Delete the pipeline"
        isDangerous
        submit={() =>
          deletePipeline(at, async () => {
            await navigate({ to: '/pipelines' })
            discardAll(folderOf(at))
          })
        }
      />
    </>
  )
}

interface DialogProps {
  at: Named
  isOpen: boolean
  onClose: () => void
}

function PublishDialog({ at, isOpen, onClose, isUnsaved }: DialogProps & { isUnsaved: boolean }) {
  const [message, setMessage] = useState('')
  const run = useRun(at)
  const publish = async () => {
    await saveAll(folderOf(at))
    await publishDraft(at, message)
    setMessage('')
  }
  return (
    <FormDialog
      title="Publish the draft"
      description={`Publishing checks the draft and makes it the version that runs execute.${isUnsaved ? ' Changes that are not saved are saved first.' : ''}`}
      isOpen={isOpen}
      onClose={onClose}
      submitLabel="Publish"
      submit={publish}
      other={{
        label: 'Publish and run',
        submit: async () => {
          await publish()
          // A run that is refused is no reason to publish again, so the dialog closes.
          await run().catch(sayError)
        },
      }}
    >
      <TextField
        label="Message (optional)"
        hint="What changes, for people who read the list of versions"
        value={message}
        onChange={(event) => setMessage(event.target.value)}
      />
    </FormDialog>
  )
}

function RunDialog({ at, pipeline, isOpen, onClose }: DialogProps & { pipeline: Pipeline }) {
  const [branch, setBranch] = useState('')
  const [isDraft, setDraft] = useState(false)
  const run = useRun(at)
  const { published_version: version } = pipeline
  const code = version === null || (branch !== '' && isDraft) ? 'the draft' : `version ${version}`
  const target = branch === '' ? 'main' : `the branch ${branch}`
  return (
    <FormDialog
      title="Run the pipeline"
      description={`The run executes ${code} on a branch of its own. It merges into ${target} if the tests pass.`}
      isOpen={isOpen}
      onClose={onClose}
      submitLabel="Run"
      submit={() => run({ ...(branch !== '' && { branch, ...(isDraft && { draft: true }) }) })}
    >
      <BranchSelect isLabelShown value={branch} onChange={setBranch} />
      {branch !== '' && version !== null && (
        <Checkbox
          label="Execute the draft instead of the published version"
          checked={isDraft}
          onChange={(event) => setDraft(event.target.checked)}
        />
      )}
    </FormDialog>
  )
}
