import { boundId } from './bound.ts'
import { notFound } from './errors.ts'
import type { PipelinePath } from './names.ts'

/** A pipeline as clients name it. A name can be reused after a deletion, so only the id identifies a pipeline. */
export interface PipelineRef {
  namespace: string
  layer: string
  name: string
  /** If set, only the pipeline with this id matches: the caller's right was checked for this id. */
  boundTo?: string
}

export const refOf = (path: PipelinePath): PipelineRef => {
  const ref = { namespace: path.ns, layer: path.layer, name: path.name }
  const boundTo = boundId(path)
  return boundTo === undefined ? ref : { ...ref, boundTo }
}

/** The folder of a pipeline's files; ends in '/'. */
export const prefixOf = ({ namespace, layer, name }: PipelineRef) =>
  `${namespace}/pipelines/${layer}/${name}/`

export const noPipeline = ({ namespace, layer, name }: PipelineRef) =>
  notFound(`pipeline ${namespace}.${layer}.${name}`)
