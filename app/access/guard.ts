// Checks the rule of each route before its handler runs.

import type { Access } from '../core/access.ts'
import { forbidden } from '../core/errors.ts'
import type { PipelineRef } from '../core/pipeline-ref.ts'
import type { Route } from '../wire/route-table.ts'
import type { Rule, RuleRequest } from './rule.ts'
import { RULES } from './rules.ts'
import type { Resources } from './service.ts'

type Guard = (route: Route, request: Partial<RuleRequest> & { access: Access }) => void | Promise<void>

/** Throws when a route has no rule, so that a route without an access decision is never served. */
export function makeGuard(routes: readonly Route[], resources: Resources): Guard {
  const rules = new Map<Route, Rule>()
  for (const route of routes) {
    const rule = RULES[`${route.method} ${route.pattern}`]
    if (rule === undefined)
      throw new Error(
        `route ${route.method} ${route.pattern} has no access rule: add one in app/access/rules.ts`,
      )
    rules.set(route, rule)
  }
  return (route, { params = {}, query = {}, body, access }) => {
    const rule = rules.get(route)
    if (rule === undefined)
      throw new Error(`no access rule loaded for route ${route.method} ${route.pattern}`)
    if (!access.isAdmin) return rule.check({ params, query, body, access }, resources)
  }
}

/** For uploads, whose target path is in the body: throws 403 when the caller may not write the path. */
export type MayWriteFile = (access: Access, path: string) => Promise<void>

/** Without `resources` (community edition) nothing has an owner, so every caller may write. */
export const fileWriting =
  (resources: Resources | undefined): MayWriteFile =>
  async (access, path) => {
    if (resources === undefined || access.isAdmin) return
    if (!(await access.may(await resources.file(path), 'write')))
      throw forbidden(
        'write permission on the pipeline, landing zone or namespace of the file required: ask its owner',
      )
  }

/** For answers that show more to writers of a pipeline than to its readers. */
export type MayWritePipeline = (access: Access, ref: PipelineRef) => Promise<boolean>

/** Without `resources` (community edition) every caller may write. */
export const pipelineWriting =
  (resources: Resources | undefined): MayWritePipeline =>
  async (access, ref) => {
    if (resources === undefined || access.isAdmin) return true
    const found = await resources.pipeline(ref)
    return found !== null && access.may(found, 'write')
  }
