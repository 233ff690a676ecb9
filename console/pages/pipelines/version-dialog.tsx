import { useState } from 'react'
import { folderOf, type Named } from '../../api/pipelines.ts'
import { Select } from '../../design/controls.tsx'
import { Dialog } from '../../design/overlay.tsx'
import { PinnedFile } from './pinned-file.tsx'

export interface Version {
  version_number: number
  published_versions: object
}

const pinsOf = (version: Version | undefined) => (version?.published_versions ?? {}) as Record<string, string>

/** The files of a version, each with its change against the version before. */
export function VersionDialog({
  at,
  version,
  before,
  onClose,
}: {
  at: Named
  version: Version
  /** Undefined: there is no earlier version. */
  before: Version | undefined
  onClose: () => void
}) {
  const folder = folderOf(at)
  const [pins, earlier] = [pinsOf(version), pinsOf(before)]
  const paths = [...new Set([...Object.keys(pins), ...Object.keys(earlier)])].toSorted()
  const isChanged = (path: string) => pins[path] !== earlier[path]
  const source = paths.find((each) => /\/pipeline\.(sql|py)$/.test(each)) ?? paths[0] ?? ''
  const [path, setPath] = useState(
    before === undefined || isChanged(source) ? source : (paths.find(isChanged) ?? source),
  )
  return (
    <Dialog title={`Version ${version.version_number}`} size="large" isOpen onClose={onClose}>
      <Select
        label="File"
        value={path}
        choices={paths.map((value) => ({
          value,
          label: `${value.slice(folder.length)}${before !== undefined && isChanged(value) ? ' (changed)' : ''}`,
        }))}
        onChange={setPath}
      />
      <PinnedFile
        key={path}
        path={path}
        pin={pins[path]}
        earlier={before === undefined ? null : earlier[path]}
        label={`Version ${version.version_number} against the version before`}
      />
    </Dialog>
  )
}
