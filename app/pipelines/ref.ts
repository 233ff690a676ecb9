import { notFound } from '../http/errors.ts'
import type { PipelinePath } from '../http/names.ts'

/** How clients name a pipeline. A deleted one's name can be used again, so this is no identity: an id is. */
export interface PipelineRef {
  namespace: string
  layer: string
  name: string
}

export const refOf = ({ ns, layer, name }: PipelinePath): PipelineRef => ({ namespace: ns, layer, name })

/** Where a pipeline's files live; ends in '/'. */
export const prefixOf = ({ namespace, layer, name }: PipelineRef) =>
  `${namespace}/pipelines/${layer}/${name}/`

export const noPipeline = ({ namespace, layer, name }: PipelineRef) =>
  notFound(`pipeline ${namespace}.${layer}.${name}`)
