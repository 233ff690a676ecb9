import { api, ok } from '../../api/client.ts'

export interface Named {
  ns: string
  layer: string
  name: string
}

export const pipelineAt = ({ ns, layer, name }: Named) => api.pipelines({ ns })({ layer })({ name })
export const pipelineQuery = (at: Named) => () => ok(pipelineAt(at).get())
export type Pipeline = Awaited<ReturnType<ReturnType<typeof pipelineQuery>>>

/** The folder of a pipeline's files, for `/files`. */
export const folderOf = ({ ns, layer, name }: Named) => `${ns}/pipelines/${layer}/${name}/`
export const sourceOf = ({ type }: Pick<Pipeline, 'type'>) =>
  type === 'python' ? 'pipeline.py' : 'pipeline.sql'
