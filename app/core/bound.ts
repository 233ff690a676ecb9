// A right is checked for one resource, and later the handler looks the resource up by name. In between, the resource may be
// deleted and its name reused by another user. So the checked id is attached to the request's own parameters. For this request,
// a resource with another id does not exist.
import type { Resource } from './access.ts'

const bound = new WeakMap<object, string>()

export const bindTo = (params: object, { id }: Resource) => void bound.set(params, id)

/** The id for which the caller's right was checked; undefined when everything is allowed, as in the community edition. */
export const boundId = (params: object): string | undefined => bound.get(params)

const rules = new WeakMap<Request, () => void | Promise<void>>()

/** Stores the rights check of a request, so that it can be repeated. */
export const storeRule = (request: Request, ask: () => void | Promise<void>) => void rules.set(request, ask)

/** For requests that take minutes, such as an upload: rejects when the right was revoked in the meantime. */
export const recheckAccess = async (request: Request): Promise<void> => await rules.get(request)?.()
