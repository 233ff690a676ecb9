import { readFileSync } from 'node:fs'
import { AuthorError } from '../../../lake/pipeline/author-error.ts'
import type { TextFile } from '../../../lake/pipeline/config.ts'
import { testNameOf } from '../../../lake/pipeline/quality.ts'
import type { SubmitPipelineRequest } from '../../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { type Gateway, openObject } from '../../objects/lake-access.ts'
import { limits } from '../core/limits.ts'

/** The files of a pipeline that a run reads, with paths below the pipeline's prefix. */
export interface PipelineFiles {
  source: TextFile
  config?: TextFile
  tests: NamedTest[]
}

export interface NamedTest {
  name: string
  file: TextFile
}

type PipelineRef = { namespace: string; layer: string; pipelineName: string }

/** The prefix of every path of a pipeline. */
export const prefixOf = ({ namespace, layer, pipelineName }: PipelineRef): string =>
  `${namespace}/pipelines/${layer}/${pipelineName}/`

/** Fetches the pinned files. Throws HttpFailure, and AuthorError if the source is missing. */
export async function fetchPipelineFiles(
  request: SubmitPipelineRequest,
  gateway: Gateway,
): Promise<PipelineFiles> {
  const sourcePath = request.type === 'python' ? 'pipeline.py' : 'pipeline.sql'
  const prefix = prefixOf(request)
  const needed = request.files
    .map((object) => ({ object, path: object.path.slice(prefix.length) }))
    .filter(({ object, path }) => object.path.startsWith(prefix) && isRead(path, sourcePath))
  const files = await Promise.all(
    needed.map(async ({ object, path }) => {
      // A size of 0 means that the size is unknown.
      const sizeBytes = Number(object.sizeBytes) || undefined
      const { path: local, release } = await openObject(gateway, object.path, object.versionId, sizeBytes)
      try {
        return { path, text: readFileSync(local, 'utf8') }
      } finally {
        release()
      }
    }),
  )
  const source = files.find(({ path }) => path === sourcePath)
  if (source === undefined) throw new AuthorError(`the pipeline has no ${sourcePath}`)
  if (source.text.length > limits.sourceBytes)
    throw new AuthorError(`${sourcePath} is longer than ${limits.sourceBytes} characters: shorten the file`)
  return { source, config: files.find(({ path }) => path === 'config.yaml'), tests: testsIn(files) }
}

const isRead = (path: string, sourcePath: string) =>
  path === sourcePath || path === 'config.yaml' || testNameOf(path) !== undefined

/** The quality tests among files, by name. */
export const testsIn = (files: readonly TextFile[]): NamedTest[] =>
  files
    .flatMap((file) => {
      const name = testNameOf(file.path)
      return name === undefined ? [] : [{ name, file }]
    })
    .sort((a, b) => (a.name < b.name ? -1 : 1))
