import { Type as t } from '@sinclair/typebox'
import { limits } from '../core/limits.ts'
import { Instant, literals, NamespaceName, nullable, Uuid } from '../core/names.ts'
import { REVIEWS } from '../protection/rule.ts'

const Description = t.String({
  description: `At most ${limits.textCharacters} characters`,
  examples: ['Flights of 2001'],
})

const Review = literals(REVIEWS, {
  title: 'ProtectionReview',
  description:
    'Whether changes of tables on main need a decision: of nobody, of any person, or of a person who did not make the change. The stricter of this rule and the one of a pipeline holds.',
})

const Protection = t.Object(
  {
    review: Review,
    proposed: t.Optional(
      t.Object(
        { review: Review, by: t.String() },
        {
          title: 'ProposedProtection',
          description: 'A lower rule that one administrator wants. It holds when another one sends it too.',
        },
      ),
    ),
  },
  { title: 'Protection' },
)

export const Namespace = t.Object(
  {
    id: Uuid,
    name: NamespaceName,
    owner: nullable(t.String()),
    description: t.String(),
    created_at: Instant,
    protection: Protection,
  },
  { title: 'Namespace' },
)
export type Namespace = typeof Namespace.static

export const NamespaceList = t.Object(
  { namespaces: t.Array(Namespace), total: t.Integer() },
  { title: 'NamespaceList' },
)

export const NamespaceParams = t.Object({ name: NamespaceName })

export const CreateNamespace = t.Object(
  {
    name: { ...NamespaceName, examples: ['air-traffic'] },
    description: t.Optional(Description),
  },
  { title: 'CreateNamespace' },
)
export type CreateNamespace = typeof CreateNamespace.static

export const UpdateNamespace = t.Object(
  { description: t.Optional(Description), protection: t.Optional(Protection) },
  { title: 'UpdateNamespace' },
)
export type UpdateNamespace = typeof UpdateNamespace.static
