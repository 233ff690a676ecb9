import { expect, test } from 'bun:test'
import { hintFor } from './admission.ts'

const existingPath = /^\/(api\/v1\/(runs|runs\/[^/]+|files\/.+)|inspector)$/
const routes = { methods: (path: string) => (existingPath.test(path) ? ['GET'] : []) }

test.each([
  ['/api/v1/runs/', '/api/v1/runs'],
  ['/api/v1/runs///', '/api/v1/runs'],
  ['/runs', '/api/v1/runs'],
  ['/runs/', '/api/v1/runs'],
  ['/runs/7', '/api/v1/runs/7'],
  ['/api/runs', '/api/v1/runs'],
  ['/v1/runs', '/api/v1/runs'],
  ['/files/default/a.sql', '/api/v1/files/default/a.sql'],
  ['/inspector/', '/inspector'],
  ['/nope', null],
  ['/', null],
  ['//', null],
  ['/api/v1/', null],
  ['/apiv1/runs', null],
  [`/${'/'.repeat(16_000)}x`, null],
] as const)('suggests for the unknown address %s the route %s', (path, hint) =>
  expect(hintFor(path, routes)).toBe(hint),
)
