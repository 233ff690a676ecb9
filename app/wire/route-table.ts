import type { BodyFields } from './unknown-fields.ts'

// All routes, known before Elysia runs. The table says whether a path has other methods (405), which credential it requires,
// and which body is read. It also supplies the pattern that replaces the path in metrics and logs.

export type Access = 'open' | 'own-credential' | 'identity'
/** `unused`: the route has no fields, and a JSON body is read only to refuse its fields. */
export type BodyKind = 'none' | 'unused' | 'json'

export interface Route {
  method: string
  /** As declared: `/api/v1/runs/:id`. */
  pattern: string
  access: Access
  body: BodyKind
  bodyBytesMax: number
  /** The query parameters that the route knows; null: unknown parameters are ignored. */
  parameters: ReadonlySet<string> | null
  /** The fields that the body may have; null: unknown fields are ignored. */
  fields: BodyFields | null
  /** The pattern of the address that returns the resource which this route updates; null: none does. */
  resource: string | null
  /** The Elysia plugin of this route answers every error in its own format, as the Iceberg routes do. */
  answersOwnErrors: boolean
}

export interface RouteTable {
  /** The route that answers; HEAD falls back to GET. The matching rules are those of Elysia's router. */
  find(method: string, path: string): Route | null
  /** Methods of all routes on this path; empty: the path is unknown. */
  methods(path: string): string[]
}

interface Node {
  literal: Map<string, Node>
  parameter: Node | null
  /** Routes that end here. */
  routes: Map<string, Route>
  /** Routes whose `*` matches the rest of the path. */
  rest: Map<string, Route>
}

export function makeRouteTable(routes: readonly Route[]): RouteTable {
  const root = makeNode()
  for (const route of routes) insert(root, route)

  const find = (method: string, path: string): Route | null => {
    const exact = search(root, segmentsOf(path), 0, (nodeRoutes) => nodeRoutes.get(method) ?? null)
    return exact ?? (method === 'HEAD' ? find('GET', path) : null)
  }
  return {
    find,
    methods: (path) => {
      const methods = new Set<string>()
      search(root, segmentsOf(path), 0, (nodeRoutes) => {
        for (const method of nodeRoutes.keys()) methods.add(method)
        return null
      })
      if (methods.has('GET')) methods.add('HEAD')
      if (methods.size > 0) methods.add('OPTIONS')
      return [...methods].sort()
    },
  }
}

/** Visits matching nodes, the most specific first, until `visit` returns a route. */
function search(
  node: Node,
  segments: readonly string[],
  at: number,
  visit: (answers: Map<string, Route>) => Route | null,
): Route | null {
  const segment = segments[at]
  if (segment === undefined) return visit(node.routes)
  const literal = node.literal.get(segment)
  return (
    (literal && search(literal, segments, at + 1, visit)) ||
    (node.parameter && segment !== '' && search(node.parameter, segments, at + 1, visit)) ||
    visit(node.rest)
  )
}

function insert(root: Node, route: Route) {
  let node = root
  for (const segment of segmentsOf(route.pattern)) {
    if (segment === '*') {
      node.rest.set(route.method, route)
      return
    }
    node = segment.startsWith(':') ? parameterOf(node) : literalOf(node, segment)
  }
  node.routes.set(route.method, route)
}

const parameterOf = (node: Node) => {
  node.parameter ??= makeNode()
  return node.parameter
}

const literalOf = (node: Node, segment: string) => {
  const existing = node.literal.get(segment)
  if (existing) return existing
  const created = makeNode()
  node.literal.set(segment, created)
  return created
}

const makeNode = (): Node => ({ literal: new Map(), parameter: null, routes: new Map(), rest: new Map() })

const segmentsOf = (path: string) => path.slice(1).split('/')

/** A pattern as the OpenAPI document writes it: `/api/v1/runs/{id}`. */
export const documentedPath = (pattern: string) => pattern.replace(/\*$/, ':path').replace(/:(\w+)/g, '{$1}')
