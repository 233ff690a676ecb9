import { type Static, Type as t } from '@sinclair/typebox'

const key = t.String()

const shared = { key, versionId: t.String(), modified: t.Date() }

export const ObjectCall = t.Union([
  t.Object({ op: t.Literal('list'), prefix: key, limit: t.Integer({ minimum: 1 }), after: t.Optional(key) }),
  t.Object({ op: t.Literal('versions'), prefix: key, after: t.Optional(key) }),
  t.Object({ op: t.Literal('read'), key }),
  t.Object({ op: t.Literal('put'), key, bytes: t.Uint8Array() }),
  t.Object({ op: t.Literal('remove'), key }),
  t.Object({ op: t.Literal('removeVersion'), key, versionId: t.String() }),
])

export type ObjectCall = Static<typeof ObjectCall>

export const ObjectAnswer = t.Union([
  t.Object({
    op: t.Literal('list'),
    page: t.Object({
      objects: t.Array(t.Object({ ...shared, size: t.Integer() })),
      truncated: t.Boolean(),
    }),
  }),
  t.Object({
    op: t.Literal('versions'),
    page: t.Object({
      versions: t.Array(
        t.Object({ ...shared, size: t.Union([t.Integer(), t.Null()]), isNewest: t.Boolean() }),
      ),
      truncated: t.Boolean(),
    }),
  }),
  t.Object({ op: t.Literal('read'), bytes: t.Union([t.Uint8Array(), t.Null()]) }),
  t.Object({ op: t.Literal('done') }),
  t.Object({ op: t.Literal('failed'), message: t.String() }),
])

export type ObjectAnswer = Static<typeof ObjectAnswer>

/** Performs a call, or forwards it to the process with the store. Never rejects. */
export type AnswerObjectCall = (call: ObjectCall) => Promise<ObjectAnswer>
