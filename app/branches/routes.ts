import { Type as t } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { ErrorBody } from '../core/names.ts'
import { setLink } from '../core/pagination.ts'
import { callerNameOf, exchangeOf, readerBehind, visibleTo } from '../http/exchange.ts'
import { IdempotencyHeaders, idempotencyKeyOf } from '../http/idempotency-key.ts'
import type { Merger, MergeService } from './merges.ts'
import {
  Branch,
  BranchDetail,
  BranchList,
  BranchPath,
  BranchQuery,
  CommitList,
  CommitQuery,
  CreateBranch,
  CreateTag,
  MergeBranch,
  Merged,
  MergeRefused,
  Tag,
  TagList,
  TagPath,
  TagQuery,
} from './schema.ts'
import type { BranchService, Caller } from './service.ts'
import type { TagService } from './tags.ts'

export const branchRoutes = (branches: BranchService, merges: MergeService) =>
  new Elysia({ prefix: '/branches', strictPath: true, tags: ['branches'] })
    .get(
      '',
      async ({ query, request, set }) => {
        const { page, ...list } = await branches.list(query)
        setLink(set, request.url, page, list.total)
        return list
      },
      {
        query: BranchQuery,
        response: { 200: BranchList, 400: ErrorBody },
        detail: {
          operationId: 'listBranches',
          summary: 'List branches',
          description:
            'Returns main first, then the branches of users by name. Branches of runs are left out.',
        },
      },
    )
    .post(
      '',
      async ({ body, headers, request, status }) =>
        status(201, await branches.create(body, callerOf(request), idempotencyKeyOf(request, headers, body))),
      {
        body: CreateBranch,
        headers: IdempotencyHeaders,
        response: { 201: Branch, 400: ErrorBody, 403: ErrorBody, 404: ErrorBody, 409: ErrorBody },
        detail: {
          operationId: 'createBranch',
          summary: 'Create a branch',
          description:
            'Opens a view of the whole lake and copies no data. The branch starts at the head of main, at `as_of`, or with the changes of the branch `from`. The names of closed branches are free again.',
        },
      },
    )
    .get(
      '/:branch',
      async ({ params, request }) => branches.detail(params.branch, await visibleTo(request)),
      {
        params: BranchPath,
        response: { 200: BranchDetail, 404: ErrorBody },
        detail: {
          operationId: 'getBranch',
          summary: 'Get a branch',
          description: 'Returns main or a branch of a user, also after its end until its name is used again.',
        },
      },
    )
    .delete(
      '/:branch',
      async ({ params, request, status }) => {
        await branches.remove(params.branch, callerOf(request))
        return status(204, undefined)
      },
      {
        params: BranchPath,
        response: { 204: t.Void(), 403: ErrorBody, 404: ErrorBody, 409: ErrorBody },
        detail: {
          operationId: 'deleteBranch',
          summary: 'Delete a branch',
          description: 'Closes the branch without a merge. A branch with unfinished runs is 409.',
        },
      },
    )
    .post(
      '/:branch/merge',
      ({ params, body, request }) => merges.merge(params.branch, body ?? {}, mergerOf(request)),
      {
        params: BranchPath,
        body: t.Optional(MergeBranch),
        response: {
          200: Merged,
          403: ErrorBody,
          404: ErrorBody,
          409: MergeRefused,
          503: ErrorBody,
        },
        detail: {
          operationId: 'mergeBranch',
          summary: 'Merge a branch into main',
          description:
            'Evaluates the published tests of severity error of every changed table on the result, then merges all tables as one commit of main. With `publish_drafts`, the drafts behind the tables become versions in the same transaction, and their tests count instead of the published ones. If a test fails, or if a table changed on both sides, nothing is merged. The merged branch is closed, and its name is free again.',
        },
      },
    )
    .post(
      '/:branch/rebase',
      async ({ params, request }) => {
        await merges.rebase(params.branch, callerOf(request), await visibleTo(request))
        return branches.get(params.branch)
      },
      {
        params: BranchPath,
        response: { 200: Branch, 403: ErrorBody, 404: ErrorBody, 409: MergeRefused },
        detail: {
          operationId: 'rebaseBranch',
          summary: 'Rebase a branch',
          description:
            'Moves the branch to the head of main. Tables that the branch did not change are then those of main now. A table that changed on both sides is 409.',
        },
      },
    )
    .get(
      '/:branch/commits',
      async ({ params, query, request, set }) => {
        const { page, ...list } = await branches.commits(params.branch, query, await visibleTo(request))
        setLink(set, request.url, page, list.total)
        return list
      },
      {
        params: BranchPath,
        query: CommitQuery,
        response: { 200: CommitList, 404: ErrorBody },
        detail: {
          operationId: 'listBranchCommits',
          summary: 'List the commits of a branch',
          description: 'Returns the commits since the opening of the branch, or all of main, newest first.',
        },
      },
    )

export const tagRoutes = (tags: TagService) =>
  new Elysia({ prefix: '/tags', strictPath: true, tags: ['branches'] })
    .get(
      '',
      async ({ query, request, set }) => {
        const { page, ...list } = await tags.list(query)
        setLink(set, request.url, page, list.total)
        return list
      },
      {
        query: TagQuery,
        response: { 200: TagList },
        detail: { operationId: 'listTags', summary: 'List tags', description: 'Returns tags by name.' },
      },
    )
    .post(
      '',
      async ({ body, headers, request, status }) =>
        status(201, await tags.create(body, callerOf(request), idempotencyKeyOf(request, headers, body))),
      {
        body: CreateTag,
        headers: IdempotencyHeaders,
        response: { 201: Tag, 400: ErrorBody, 403: ErrorBody, 404: ErrorBody, 409: ErrorBody },
        detail: {
          operationId: 'createTag',
          summary: 'Create a tag',
          description:
            'Names a commit of main and keeps it for ever. Use the tag wherever `as_of` is accepted.',
        },
      },
    )
    .delete(
      '/:name',
      async ({ params, request, status }) => {
        await tags.remove(params.name, callerOf(request))
        return status(204, undefined)
      },
      {
        params: TagPath,
        response: { 204: t.Void(), 403: ErrorBody, 404: ErrorBody },
        detail: {
          operationId: 'deleteTag',
          summary: 'Delete a tag',
          description: 'Retention may then remove the tables of the commit.',
        },
      },
    )

/** The caller of a request that merges. */
export const mergerOf = (request: Request): Merger => ({
  ...callerOf(request),
  access: exchangeOf(request).access,
  reader: readerBehind(request),
  signal: request.signal,
})

/** The caller of a request, as branches and commits name their authors. */
function callerOf(request: Request): Caller {
  return { name: callerNameOf(request), isAdmin: exchangeOf(request).access.isAdmin }
}
