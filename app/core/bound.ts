// A right is looked up for one thing, and then the handler finds that thing by its name once more. Meanwhile it may have
// been deleted, and somebody else may have taken the name: so the id that was judged goes along with the request's own
// parameters, and what has another id by now does not exist for this request.
import type { Resource } from './access.ts'

const bound = new WeakMap<object, string>()

export const bindTo = (params: object, { id }: Resource) => void bound.set(params, id)

/** The id of what the caller's right was looked up for; undefined where all is allowed, as in the community edition. */
export const boundId = (params: object): string | undefined => bound.get(params)

const rules = new WeakMap<Request, () => void | Promise<void>>()

/** What decided about a request, so that it can be decided again. */
export const remember = (request: Request, ask: () => void | Promise<void>) => void rules.set(request, ask)

/** For what takes minutes, such as an upload: rejects when the right was revoked meanwhile. */
export const askAgain = async (request: Request): Promise<void> => await rules.get(request)?.()
