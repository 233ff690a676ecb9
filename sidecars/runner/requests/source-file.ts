import type { SourceFile } from '../../../proto/gen/sluice/runner/v1/runner_pb.ts'

/** Returns a path below the pipeline's prefix. The path of the request may include the prefix. */
export const textFile = ({ path, content }: SourceFile, prefix: string) => ({
  path: path.startsWith(prefix) ? path.slice(prefix.length) : path,
  text: content,
})
