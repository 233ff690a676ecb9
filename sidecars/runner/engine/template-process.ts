import { collecting, type RequestedNames, TemplateError } from '../../../lake/pipeline/template.ts'
import type { WorkBudget } from '../../../lake/pipeline/template-engine.ts'
import type { Collect } from '../../../lake/pipeline/validate.ts'
import type { EngineLease } from './engine-lease.ts'
import { NO_INSTANCE } from './engine-messages.ts'
import { type RenderedText, type Rendering, renderPlain, type TemplateText } from './rendering.ts'

/** An engine process, which renders templates apart from its instances. */
export type TemplateProcess = Pick<EngineLease, 'call'>

/** Renders a template in an engine process. Throws TemplateError, the errors of engines, and the signal's reason. */
export async function renderIn(
  engine: TemplateProcess,
  text: TemplateText,
  budget: WorkBudget,
  signal: AbortSignal,
): Promise<RenderedText> {
  const request = { kind: 'render', number: NO_INSTANCE, text, work: budget.left } as const
  return resultOf(await engine.call(request, signal), text.template.file, budget)
}

/** Collects the names that a template requests, in an engine process unless the template is plain. */
export const collectIn =
  (engine: TemplateProcess, signal: AbortSignal): Collect =>
  async (template, variables, budget): Promise<RequestedNames> => {
    const { resolver, requested } = collecting()
    if (renderPlain(template, variables, resolver) !== null) return requested()
    const request = { kind: 'collect', number: NO_INSTANCE, template, variables, work: budget.left } as const
    return resultOf(await engine.call(request, signal), template.file, budget)
  }

function resultOf<Result>(rendering: Rendering<Result>, file: string, budget: WorkBudget): Result {
  budget.left -= rendering.used
  if ('result' in rendering) return rendering.result
  const { text, line, column } = rendering.fault
  throw new TemplateError(file, text, {
    ...(line !== undefined && { line }),
    ...(column !== undefined && { column }),
  })
}
