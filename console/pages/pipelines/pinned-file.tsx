import { useQuery } from '@tanstack/react-query'
import { fileVersionsQuery } from '../../api/files.ts'
import { Loaded } from '../../design/loaded.tsx'
import { Notice } from '../../design/surfaces.tsx'
import CodeEditor from '../../editor/code-editor.tsx'
import CompareEditor from '../../editor/compare-editor.tsx'
import { languageOf } from './language.ts'

/** A version of a file. `earlier` is null if there is nothing to compare it with. */
export function PinnedFile({
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
  const query = useQuery(fileVersionsQuery(path, pin, earlier))
  const language = languageOf(path)
  return (
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
  )
}
