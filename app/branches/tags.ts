// Tags: names that keep commits of main for ever.
import type { Sql, SqlTx } from '../../drizzle/client.ts'
import { alreadyExists, forbidden, notFound } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import { pageOf } from '../core/pagination.ts'
import { requireRoom, type SharedLimit } from '../core/shares.ts'
import { answerOnce, type IdempotencyKey } from '../http/idempotency.ts'
import { headOfMain } from '../versions/store/branches.ts'
import {
  countOpenBranches,
  countOpenBranchesOf,
  deleteTag,
  openUserBranch,
  type ShownTag,
  shownTag,
  shownTags,
} from '../versions/store/user-branches.ts'
import { commitAsOf } from '../versions/views.ts'
import type { CreateTag, Tag } from './schema.ts'
import { type Caller, checkName } from './service.ts'

/** Each tag keeps one state of every table. */
const TAGS: SharedLimit = { limit: 1_000, things: 'tags', remedy: 'delete one' }

export type TagService = ReturnType<typeof makeTagService>

export function makeTagService({ sql }: { sql: Sql }) {
  async function list(query: { limit?: string; offset?: string }) {
    const page = pageOf(query, limits.listCap)
    const [tags, total] = await Promise.all([shownTags(sql, page), countOpenBranches(sql, 'tag')])
    return { page, tags: tags.map(tagOf), total }
  }

  async function store(tx: SqlTx, request: CreateTag, caller: Caller): Promise<Tag> {
    const { name, as_of: asOf, description = '' } = request
    const base = asOf === undefined ? await headOfMain(tx) : await commitAsOf(tx, asOf, true)
    const sharer = caller.isAdmin ? null : caller.name
    requireRoom(TAGS, await countOpenBranchesOf(tx, 'tag', sharer), sharer)
    const tag = { name, kind: 'tag' as const, base, from: null, description, expiresInHours: null }
    const isOpened = await openUserBranch(tx, { ...tag, createdBy: caller.name })
    const created = isOpened ? await shownTag(tx, name) : null
    if (created === null) throw alreadyExists(`branch or tag ${name}`)
    return tagOf(created)
  }

  /** Names the head of main, or main as of a point. A repeated key gets the answer of its first request. */
  async function create(request: CreateTag, caller: Caller, key: IdempotencyKey | null): Promise<Tag> {
    checkName(request.name)
    if (key === null) return sql.begin((tx) => store(tx, request, caller))
    const outcome = await answerOnce(sql, key, {
      prepare: async () => {},
      perform: async (tx) => ({ status: 201, body: await store(tx, request, caller) }),
    })
    if (outcome === null) throw notFound(`tag ${request.name}`)
    return outcome.answer.body
  }

  /** Deletes a tag. In the Pro edition, only its creator and administrators may delete it. */
  async function remove(name: string, caller: Caller): Promise<void> {
    const found = await shownTag(sql, name)
    if (found === null) throw notFound(`tag ${name}`)
    if (!caller.isAdmin && caller.name !== found.createdBy)
      throw forbidden(`tag ${name} belongs to another user: ask its creator or an administrator`)
    if (!(await deleteTag(sql, name))) throw notFound(`tag ${name}`)
  }

  return { list, create, remove }
}

const tagOf = ({ name, commit, description, createdBy, createdAt }: ShownTag): Tag => ({
  name,
  commit,
  description,
  created_by: createdBy,
  created_at: createdAt.toISOString(),
})
