import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { fileNamesQuery, fileQuery } from '../../api/files.ts'
import { folderOf, type Named, type Pipeline, sourceOf } from '../../api/pipelines.ts'
import { Segments, Select } from '../../design/controls.tsx'
import { Loaded } from '../../design/loaded.tsx'
import { Card } from '../../design/surfaces.tsx'
import { DraftEditor } from './draft-editor.tsx'

const CONFIG = 'config.yaml'

/** The files of a draft, one at a time. */
export function Code({ at, pipeline }: { at: Named; pipeline: Pipeline }) {
  const source = sourceOf(pipeline)
  const [name, setName] = useState(source)
  const folder = folderOf(at)
  const path = folder + name
  const file = useQuery(fileQuery(path))
  return (
    <Card
      title="Draft"
      actions={
        <>
          <OtherFiles folder={folder} name={name} source={source} onChange={setName} />
          <Segments
            label="File"
            value={name}
            choices={[
              { value: source, label: source },
              { value: CONFIG, label: 'Configuration' },
            ]}
            onChange={setName}
          />
        </>
      }
    >
      <Loaded query={file}>
        {(loaded) => (
          <DraftEditor key={path} at={at} path={path} loaded={loaded} pipeline={pipeline} name={name} />
        )}
      </Loaded>
    </Card>
  )
}

/** The tests and whatever else people have stored beside the source. */
function OtherFiles({
  folder,
  name,
  source,
  onChange,
}: {
  folder: string
  name: string
  source: string
  onChange: (name: string) => void
}) {
  const { data = [] } = useQuery(fileNamesQuery(folder))
  const others = data.filter((each) => each !== source && each !== CONFIG)
  if (others.length === 0) return null
  const isOther = others.includes(name)
  return (
    <Select
      label="Other files"
      isLabelShown={false}
      value={isOther ? name : ''}
      choices={[{ value: '', label: 'Other files' }, ...others.map((value) => ({ value, label: value }))]}
      onChange={(value) => onChange(value === '' ? source : value)}
    />
  )
}
