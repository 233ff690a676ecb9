import { boundId } from './bound.ts'
import { notFound } from './errors.ts'
import type { PipelinePath } from './names.ts'

/** How clients name a pipeline. A deleted one's name can be used again, so this is no identity: an id is. */
export interface PipelineRef {
  namespace: string
  layer: string
  name: string
  /** Then only the pipeline with this id is meant: what the caller's right was looked up for. */
  boundTo?: string
}

export const refOf = (path: PipelinePath): PipelineRef => {
  const ref = { namespace: path.ns, layer: path.layer, name: path.name }
  const boundTo = boundId(path)
  return boundTo === undefined ? ref : { ...ref, boundTo }
}

/** Where a pipeline's files live; ends in '/'. */
export const prefixOf = ({ namespace, layer, name }: PipelineRef) =>
  `${namespace}/pipelines/${layer}/${name}/`

export const noPipeline = ({ namespace, layer, name }: PipelineRef) =>
  notFound(`pipeline ${namespace}.${layer}.${name}`)
