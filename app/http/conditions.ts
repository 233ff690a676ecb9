// Conditional requests (RFC 9110, section 13). The entity tag of a resource is its version id.
import { Type as t } from '@sinclair/typebox'
import { AppError, invalid } from '../core/errors.ts'

/** Declared as `headers` by routes whose response has an entity tag. */
export const ReadConditions = t.Object({
  'if-none-match': t.Optional(
    t.String({
      maxLength: 4096,
      description: 'Entity tags, or `*`. 304 if the current entity tag is in the list.',
    }),
  ),
})

/** Declared as `headers` by routes that change a resource with an entity tag. */
export const WriteConditions = t.Object({
  'if-match': t.Optional(
    t.String({
      maxLength: 4096,
      description:
        'Entity tags: 412 unless the current entity tag is in the list. `*`: 412 unless the resource exists.',
    }),
  ),
  'if-none-match': t.Optional(
    t.String({
      maxLength: 4096,
      description:
        '`*`: 412 if the resource exists. Entity tags: 412 if the current entity tag is in the list.',
    }),
  ),
})

/** The condition of a change, given the current version id; null: the resource does not exist. */
export type Precondition = (versionId: string | null) => boolean

export const entityTag = (versionId: string) => `"${versionId}"`

/** Null: the request has no condition. Throws 400 for an invalid condition. */
export function preconditionOf(headers: typeof WriteConditions.static): Precondition | null {
  const { 'if-match': required, 'if-none-match': forbidden } = headers
  if (required === undefined && forbidden === undefined) return null
  const isRequired = required === undefined ? () => true : matcherOf('If-Match', required, 'strong')
  const isForbidden = forbidden === undefined ? () => false : matcherOf('If-None-Match', forbidden, 'weak')
  return (versionId) => isRequired(versionId) && !isForbidden(versionId)
}

/** Whether the client already has this version. */
export function clientHasVersion(headers: typeof ReadConditions.static, versionId: string): boolean {
  const { 'if-none-match': entityTags } = headers
  return entityTags !== undefined && matcherOf('If-None-Match', entityTags, 'weak')(versionId)
}

export const preconditionFailed = (what: string) =>
  new AppError(
    412,
    'ALREADY_EXISTS',
    `${what} does not match the condition of the request: read its current version`,
  )

const TAG = /(W\/)?"([\x21\x23-\x7e\x80-\xff]*)"/g
/** A character that no header can contain. */
const NO_TEXT = '\0'

function matcherOf(header: string, text: string, comparison: 'strong' | 'weak') {
  if (text.trim() === '*') return (versionId: string | null) => versionId !== null
  const elements = text.replaceAll(TAG, NO_TEXT).split(',')
  // Empty elements are ignored (RFC 9110, section 5.6.1.2).
  const named = elements.map((element) => element.trim()).filter((element) => element !== '')
  if (named.length === 0 || named.some((element) => element !== NO_TEXT))
    throw invalid(header, 'must be * or a list of quoted entity tags')
  const tags = new Set<string>()
  for (const [, weak, tag = ''] of text.matchAll(TAG))
    if (weak === undefined || comparison === 'weak') tags.add(tag)
  return (versionId: string | null) => versionId !== null && tags.has(versionId)
}
