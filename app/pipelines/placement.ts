import type { Placement } from '../../drizzle/schema/pipeline.ts'
import { featuresOf, type PipelineConfig, parseConfig, SPARK_LABEL } from '../../lake/pipeline/config.ts'
import { parseTest, testNameOf } from '../../lake/pipeline/quality.ts'
import { type DraftFile, sourceFileOf } from './draft-files.ts'

/** The configuration in the code of a pipeline. Bad values have their defaults: validation and runs report them. */
export function configOf(code: readonly DraftFile[], type: string): PipelineConfig {
  const named = (path: string) => code.flatMap(({ name, text }) => (name === path ? { path, text } : []))[0]
  return parseConfig({ config: named('config.yaml'), source: named(sourceFileOf(type)) }).config
}

/** Whether the pipeline or one of its tests is Spark SQL. */
function needsSpark(code: readonly DraftFile[], { engine }: PipelineConfig): boolean {
  if (engine === 'spark') return true
  return code.some(({ name, text }) => {
    const test = testNameOf(name)
    return test !== undefined && parseTest(test, { path: name, text }).test.engine === 'spark'
  })
}

/** Null: any runner is enough, and the priority is 0. So most versions and runs store nothing. */
export function placementOf(code: readonly DraftFile[], type: string): Placement | null {
  const config = configOf(code, type)
  const { memory, priority } = config
  const spark = needsSpark(code, config) ? [SPARK_LABEL] : []
  const runsOn = [...config.runsOn, ...featuresOf(config), ...spark]
  if (runsOn.length === 0 && memory === null && priority === 0) return null
  return { runsOn, memoryBytes: memory, priority }
}
