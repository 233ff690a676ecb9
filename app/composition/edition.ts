import { makeCodeVisibility } from '../access/code-visibility.ts'
import { makeEnforcement, makeResources, makeSharing } from '../access/service.ts'
import { makeLicensing } from '../licensing/service.ts'
import type { Plugins } from '../plugins/plugins.ts'
import type { ServiceParts } from './parts.ts'

export type Edition = ReturnType<typeof makeEdition>

/** Parts of the Pro edition; undefined in the community edition. */
export function makeEdition(
  { config, database: { db, sql }, objects, newId, clock, log }: ServiceParts,
  plugins: Plugins,
) {
  const { admins } = config.plugins
  const ownership =
    config.edition === 'pro'
      ? {
          resources: makeResources({ sql, objects }),
          enforcement: plugins.enforcementOr(makeEnforcement({ sql })),
          sharing: plugins.sharingOr(makeSharing({ db, newId })),
        }
      : undefined
  const { license } = config
  return {
    ownership,
    licensing: license === null ? undefined : makeLicensing({ license, sql, clock, log, admins }),
    codeVisibility: ownership && makeCodeVisibility({ sql, ...ownership, admins }),
  }
}
