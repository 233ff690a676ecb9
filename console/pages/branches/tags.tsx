import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { createTag, deleteTag, type Tag, tagsQuery } from '../../api/tags.ts'
import { Time } from '../../design/clock.tsx'
import { Button, IconButton, TextField } from '../../design/controls.tsx'
import { Loaded } from '../../design/loaded.tsx'
import { FormDialog } from '../../design/overlay.tsx'
import { Card, Empty } from '../../design/surfaces.tsx'
import { Table } from '../../design/table.tsx'

/** Names of commits of main. */
export function Tags() {
  const [isCreating, setCreating] = useState(false)
  const [removed, setRemoved] = useState<string | null>(null)
  const query = useQuery(tagsQuery())
  return (
    <Card
      title="Tags"
      isFlush
      actions={
        <Button size="small" icon="plus" onClick={() => setCreating(true)}>
          New tag
        </Button>
      }
    >
      <Loaded query={query}>
        {({ tags }) =>
          tags.length === 0 ? (
            <Empty icon="history" title="No tag">
              A tag names a commit of main, so that queries can read it later.
            </Empty>
          ) : (
            <TagTable tags={tags} onRemove={setRemoved} />
          )
        }
      </Loaded>
      <CreateTag isOpen={isCreating} onClose={() => setCreating(false)} />
      <FormDialog
        title={`Delete the tag ${removed ?? ''}`}
        description="The commit stays until retention removes it."
        isOpen={removed !== null}
        onClose={() => setRemoved(null)}
        submitLabel="Delete the tag"
        isDangerous
        submit={() => deleteTag(removed ?? '')}
      />
    </Card>
  )
}

const TagTable = ({ tags, onRemove }: { tags: readonly Tag[]; onRemove: (name: string) => void }) => (
  <Table
    label="Tags"
    rows={tags}
    keyOf={(tag) => tag.name}
    columns={[
      {
        name: 'Tag',
        cell: (tag) => (
          <>
            <b>{tag.name}</b>
            {tag.description && <div className="muted">{tag.description}</div>}
          </>
        ),
      },
      { name: 'Commit', isNumeric: true, cell: (tag) => tag.commit },
      { name: 'Made', cell: (tag) => <Time at={tag.created_at} /> },
      {
        name: 'Actions',
        cell: (tag) => (
          <span className="row">
            <Link to="/query" search={{ as_of: tag.name }}>
              Query it
            </Link>
            <IconButton
              icon="cross"
              size="small"
              label={`Delete the tag ${tag.name}`}
              onClick={() => onRemove(tag.name)}
            />
          </span>
        ),
      },
    ]}
  />
)

function CreateTag({ isOpen, onClose }: { isOpen: boolean; onClose: () => void }) {
  const [name, setName] = useState('')
  const [commit, setCommit] = useState('')
  const [description, setDescription] = useState('')
  const create = async () => {
    await createTag({
      name,
      ...(commit && { as_of: Number(commit) }),
      ...(description && { description }),
    })
    setName('')
    setCommit('')
    setDescription('')
  }
  return (
    <FormDialog title="New tag" isOpen={isOpen} onClose={onClose} submitLabel="Create" submit={create}>
      <TextField label="Name" required value={name} onChange={(event) => setName(event.target.value)} />
      <TextField
        label="Commit of main (optional)"
        hint="Empty: the present state"
        inputMode="numeric"
        pattern="\d*"
        value={commit}
        onChange={(event) => setCommit(event.target.value)}
      />
      <TextField
        label="Description"
        value={description}
        onChange={(event) => setDescription(event.target.value)}
      />
    </FormDialog>
  )
}
