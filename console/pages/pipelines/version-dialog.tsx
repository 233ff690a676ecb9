import { useQuery } from '@tanstack/react-query'
import { lazy, Suspense, useState } from 'react'
import { Select } from '../../design/controls.tsx'
import { Loaded, Waiting } from '../../design/loaded.tsx'
import { Dialog } from '../../design/overlay.tsx'
import { Notice } from '../../design/surfaces.tsx'
import { languageOf } from './draft-editor.tsx'
import { readFile } from './files.ts'
import { folderOf, type Named } from './named.ts'

const CodeEditor = lazy(() => import('../../editor/code-editor.tsx'))
const CompareEditor = lazy(() => import('../../editor/compare-editor.tsx'))

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

/** A version of a file. `earlier` is null if there is nothing to compare it with. */
function PinnedFile({
  path,
  pin,
  earlier,
  label,
}: {
  path: string
  pin: string | undefined
  earlier: string | undefined | null
  label: string
}) {
  const query = useQuery({
    queryKey: ['pinned', path, pin, earlier],
    queryFn: async () => {
      const textOf = async (id: string | undefined | null) => (id ? (await readFile(path, id)).content : '')
      const [after, before] = await Promise.all([textOf(pin), textOf(earlier)])
      return { after, before }
    },
    staleTime: Number.POSITIVE_INFINITY,
  })
  const language = languageOf(path)
  return (
    <Suspense fallback={<Waiting lines={8} />}>
      <Loaded query={query}>
        {({ after, before }) =>
          earlier === null || before === after ? (
            <>
              {earlier !== null && <Notice>The version before has the same file.</Notice>}
              <CodeEditor key={path} label={path} language={language} value={after} isReadOnly />
            </>
          ) : (
            <CompareEditor label={label} language={language} before={before} after={after} />
          )
        }
      </Loaded>
    </Suspense>
  )
}
