import { useQuery } from '@tanstack/react-query'
import { lazy, Suspense } from 'react'
import { Loaded, Waiting } from '../../design/loaded.tsx'
import { Notice } from '../../design/surfaces.tsx'
import { languageOf, readFile } from './files.ts'

const CodeEditor = lazy(() => import('../../editor/code-editor.tsx'))
const CompareEditor = lazy(() => import('../../editor/compare-editor.tsx'))

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
