import { expect, test } from 'bun:test'
import { headingAnchors, referenceFaults } from './documents.ts'

test('headings get the anchors of GitHub', () => {
  expect(
    headingAnchors('# A `b` (Pro)\n## [Runs](x.md), files\n```\n# no\n```\n### Runs\n## Runs\n'),
  ).toEqual(['a-b-pro', 'runs-files', 'runs', 'runs-1'])
})

test('names links, anchors, paths and names that do not exist', async () => {
  const source = [
    '## Here',
    '[a](#here) [b](#gone) [c](adr/none.md) [d](../CONTRIBUTING.md#set-up) [e](../CONTRIBUTING.md#gone)',
    '`tools/check/words` `tools/check/{words,none}.ts` `tools/none/` `machines/*.ts` `GET /tools/none`',
    '`referenceFaults` (`tools/check/documents.ts`) `gone` (`tools/check/audit.ts`)',
  ].join('\n')
  expect(await referenceFaults('docs/README.md', source)).toEqual([
    'docs/README.md: there is no file tools/check/{words,none}.ts',
    'docs/README.md: there is no file tools/none/',
    'docs/README.md: docs/README.md has no heading #gone',
    'docs/README.md: link to adr/none.md: there is no file docs/adr/none.md',
    'docs/README.md: CONTRIBUTING.md has no heading #gone',
    'docs/README.md: tools/check/audit.ts does not contain gone',
  ])
})

test('docs/README.md lists every decision', async () => {
  const list = await Bun.file('docs/README.md').text()
  const decisions = [...new Bun.Glob('adr/*.md').scanSync({ cwd: 'docs' })]
  expect(decisions.filter((file) => !list.includes(`](${file})`))).toEqual([])
})
