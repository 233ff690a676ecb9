// Names of branches, and the fields with which a request chooses a version of the lake.
import { Type as t } from '@sinclair/typebox'

/** The branch that readers see by default. */
export const MAIN = 'main'
/** Branches and tags share one name space and this pattern. */
export const REF_NAME = '^[a-z][a-z0-9-]{0,62}$'
const AS_OF_CHARACTERS = 64

export const BranchName = t.String({
  pattern: REF_NAME,
  description: 'Lowercase letters, digits and hyphens; starts with a letter; at most 63 characters',
  examples: ['late-flights'],
})

const asOfText = {
  minLength: 1,
  maxLength: AS_OF_CHARACTERS,
  description: 'A commit number of main, an ISO 8601 time, or a tag',
}
/** In a JSON body, a commit number may be a number. */
export const AsOf = t.Union([t.Integer({ minimum: 0 }), t.String(asOfText)], {
  title: 'AsOf',
  description: asOfText.description,
  examples: [42],
})

/** A branch whose whole state the caller works with. */
export const OpenBranch = t.String({
  description: 'An open branch; default main',
  examples: ['late-flights'],
})

/** A branch that the caller only reads. */
const ReadBranch = t.String({
  description: 'An open branch, or the kept branch of a failed run; default main',
  examples: ['late-flights'],
})

/** Fields of a JSON body. At most one may be given. */
export const ReadVersion = { branch: t.Optional(ReadBranch), as_of: t.Optional(AsOf) }
/** Parameters of a query. At most one may be given. */
export const VersionQuery = {
  branch: t.Optional(ReadBranch),
  as_of: t.Optional(t.String({ ...asOfText, examples: ['42'] })),
}

/** The version that a request names; main at its head by default. */
export interface LakeVersion {
  branch?: string
  as_of?: string | number
}
