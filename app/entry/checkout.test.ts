import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { checkoutIn, withCheckout } from './checkout.ts'

let directory: string
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'sluice-checkout-'))
})
afterAll(() => rmSync(directory, { recursive: true }))

const A = 'a'.repeat(40)
const B = 'b'.repeat(64)
const AGE = new Date('2026-02-03T04:05:06.000Z')
let rootsCreated = 0

function rootWith(files: Record<string, string>): string {
  const root = join(directory, String(rootsCreated++))
  mkdirSync(root)
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), text)
    utimesSync(join(root, path), AGE, AGE)
  }
  return root
}

const log = (commit: string) =>
  `${B} ${B} A B <a@b> 1 +0000\tcommit\n${B} ${commit} A B <a@b> 1700000000 +0100\tcheckout: moving\n`

test.each([
  [
    'a branch',
    { '.git/HEAD': 'ref: refs/heads/main\n', '.git/refs/heads/main': `${A}\n`, '.git/logs/HEAD': log(A) },
  ],
  [
    'a packed branch',
    {
      '.git/HEAD': 'ref: refs/heads/feature/x\n',
      '.git/packed-refs': `# pack-refs with: peeled\n${B} refs/heads/feature\n${A} refs/heads/feature/x\n^${B}\n`,
      '.git/logs/HEAD': log(A),
    },
  ],
  ['a commit', { '.git/HEAD': `${A}\n`, '.git/logs/HEAD': log(A) }],
  [
    'a worktree',
    {
      '.git': 'gitdir: main/.git/worktrees/x\n',
      'main/.git/worktrees/x/HEAD': 'ref: refs/heads/x\n',
      'main/.git/worktrees/x/commondir': '../..\n',
      'main/.git/worktrees/x/logs/HEAD': log(A),
      'main/.git/refs/heads/x': `${A}\n`,
    },
  ],
])('reads the commit and time of %s', (_, files) => {
  expect(checkoutIn(rootWith(files))).toEqual({ commit: A, time: '2023-11-14T22:13:20.000Z' })
})

test('uses the age of HEAD when the log does not name its commit', () => {
  const files = { '.git/HEAD': B }
  expect(checkoutIn(rootWith(files))).toEqual({ commit: B, time: AGE.toISOString() })
  expect(checkoutIn(rootWith({ ...files, '.git/logs/HEAD': log(A) }))?.time).toBe(AGE.toISOString())
})

test.each([
  ['no checkout', {}],
  ['a branch without a commit', { '.git/HEAD': 'ref: refs/heads/main\n' }],
  ['another kind of HEAD', { '.git/HEAD': 'ref: ../../secret\n' }],
  ['a file that names no directory', { '.git': 'what\n' }],
])('returns null for %s', (_, files) => {
  expect(checkoutIn(rootWith(files))).toBeNull()
})

test('environment variables override the commit and time of the checkout', () => {
  const root = rootWith({ '.git/HEAD': B })
  const unknown = { gitCommit: 'unknown', buildTime: 'unknown' }
  expect(withCheckout(unknown, root)).toEqual({ gitCommit: B, buildTime: AGE.toISOString() })
  expect(withCheckout({ ...unknown, buildTime: 'today' }, root)).toEqual({ gitCommit: B, buildTime: 'today' })
  expect(withCheckout({ ...unknown, gitCommit: 'abc' }, root)).toEqual({ ...unknown, gitCommit: 'abc' })
  expect(withCheckout(unknown, rootWith({}))).toEqual(unknown)
})
