import { pipelineFolderOf } from '../wire/paths.ts'

/** Type of a file by its path (specification: Storage). The first matching kind counts; an empty string means no kind. */
type FileType = 'test' | 'hook' | 'meta' | 'config' | 'pipeline-sql' | 'pipeline-py' | 'doc' | ''

const KINDS: [Exclude<FileType, ''>, { folder?: RegExp; name: RegExp }][] = [
  ['test', { folder: /^tests?$/, name: /^test_|_test\.(go|py)$/ }],
  ['hook', { folder: /^hooks$/, name: /^(hook|pre|post)_/ }],
  ['meta', { name: /\.meta\.ya?ml$|^meta\.yaml$/ }],
  ['config', { name: /^(config|schema)\.ya?ml$/ }],
  ['pipeline-sql', { name: /\.sql$/ }],
  ['pipeline-py', { name: /^pipeline\.py$/ }],
  ['doc', { name: /\.(md|txt|rst)$|^README$/ }],
]

export function fileTypeOf(path: string): FileType {
  const name = path.slice(path.lastIndexOf('/') + 1)
  const inner = path.split('/').slice(namedAbove(path), -1)
  const kind = KINDS.find(
    ([, rule]) => rule.name.test(name) || inner.some((folder) => rule.folder?.test(folder)),
  )
  return kind?.[0] ?? ''
}

/**
 * Number of leading path segments with user-chosen names. They do not decide the type: a pipeline may have the name `test`, and
 * a zone the name `hooks`.
 */
function namedAbove(path: string): number {
  if (pipelineFolderOf(path) !== null) return 4
  return /^[^/]+\/landing\/[^/]+\/./.test(path) ? 3 : 1
}
