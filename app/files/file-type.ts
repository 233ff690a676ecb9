import { pipelineFolderOf } from './paths.ts'

/** What a file is by its path (specification: Storage). The first kind that matches counts; '' is none of them. */
export type FileType = 'test' | 'hook' | 'meta' | 'config' | 'pipeline-sql' | 'pipeline-py' | 'doc' | ''

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
  const folders = path.split('/')
  const name = folders.pop() ?? ''
  // A pipeline may be called `test`: the names above its files say nothing about them.
  const inner = folders.slice(pipelineFolderOf(path) === null ? 1 : 4)
  const kind = KINDS.find(
    ([, rule]) => rule.name.test(name) || inner.some((folder) => rule.folder?.test(folder)),
  )
  return kind?.[0] ?? ''
}
