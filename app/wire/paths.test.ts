import { describe, expect, test } from 'bun:test'
import { AppError } from '../core/errors.ts'
import { fileTypeOf } from '../files/file-type.ts'
import { baseName, filePath, listPrefix, pathFromUrl, pipelineFolderOf } from './paths.ts'

const refused = (read: () => unknown) => {
  try {
    return `taken: ${String(read())}`
  } catch (error) {
    if (error instanceof AppError) return error.status
    throw error
  }
}

describe('path of an address', () => {
  test.each([
    ['default/pipelines/silver/a/pipeline.sql', 'default/pipelines/silver/a/pipeline.sql'],
    ['default%2Fpipelines%2Fsilver%2Fa%2Fpipeline.sql', 'default/pipelines/silver/a/pipeline.sql'],
    ['default/notes/50%25%20off%3F.md', 'default/notes/50% off?.md'],
    ['default/notes/%C3%A9t%C3%A9.md', 'default/notes/été.md'],
    ['default/.meta.yaml', 'default/.meta.yaml'],
  ])('reads %s as the path %s', (encoded, path) => expect(pathFromUrl(encoded)).toBe(path))

  test.each([
    '',
    '/default/a.sql',
    '%2Fdefault/a.sql',
    'default/../a.sql',
    'default/%2e%2e/a.sql',
    'default/%252e%252e/a.sql',
    'default/%25252e%25252e/a.sql',
    'default/..%2fa.sql',
    'default/..%252fa.sql',
    'default/a..b.sql',
    'default/a%00.sql',
    'default/a%2500.sql',
    'default/a%0A.sql',
    ...['%C2%85', '%E2%80%AE', '%E2%81%A6', '%E2%80%8B', '%E2%80%A8', '%E2%80%A9', '%EF%BB%BF', '%C2%AD'].map(
      (hidden) => `default/a${hidden}.sql`,
    ),
    'default/a%5Cb.sql',
    'default/a%255Cb.sql',
    'default/a\\b.sql',
    'default//a.sql',
    'default/./a.sql',
    'default/a/',
    'default',
    'default%252Fa.sql',
    'Default/a.sql',
    'ab/a.sql',
    '_lake/default/a.parquet',
    'default/%ff.sql',
    'default/%zz.sql',
    `default/%${'25'.repeat(40)}41`,
  ])('refuses the path %s', (encoded) => expect(refused(() => pathFromUrl(encoded))).toBe(400))

  test('a malformed encoding does not hide an encoded parent segment', () =>
    expect(refused(() => filePath('default/%zz/..%2fa'))).toBe(400))
})

test.each([
  ['default', 'default/'],
  ['default/', 'default/'],
  ['default/pipe', 'default/pipe'],
])('the prefix %p lists %p', (prefix, listed) => expect(listPrefix(prefix)).toBe(listed))

test.each(['', '/', '_lake/', 'a', 'default/../other', 'default/%2e%2e/other', 'default//x'])(
  'refuses the prefix %p',
  (prefix) => expect(refused(() => listPrefix(prefix))).toBe(400),
)

test.each([
  ['default/pipelines/silver/a/tests/quality/x.sql', { namespace: 'default', layer: 'silver', name: 'a' }],
  ['default/pipelines/copper/a/x.sql', null],
  ['default/pipelines/silver/a', null],
  ['default/landing/silver/a/x.sql', null],
])('finds for %s the pipeline %p', (path, folder) => expect<unknown>(pipelineFolderOf(path)).toEqual(folder))

test.each([
  ['a/b/c.csv', 'c.csv'],
  ['C:\\a\\c.csv', 'c.csv'],
  ['a/', ''],
])('the base name of %p is %p', (name, base) => expect(baseName(name)).toBe(base))

describe('file types', () => {
  const prefix = 'default/pipelines/silver/test/'
  test.each([
    ['pipeline.sql', 'pipeline-sql'],
    ['queries/extra.sql', 'pipeline-sql'],
    ['pipeline.py', 'pipeline-py'],
    ['other.py', ''],
    ['config.yaml', 'config'],
    ['config.yml', 'config'],
    ['schema.yaml', 'config'],
    ['schema.yml', 'config'],
    ['.meta.yaml', 'meta'],
    ['orders.meta.yml', 'meta'],
    ['meta.yaml', 'meta'],
    ['meta.yml', ''],
    ['notes.md', 'doc'],
    ['notes.txt', 'doc'],
    ['notes.rst', 'doc'],
    ['README', 'doc'],
    ['tests/quality/a.sql', 'test'],
    ['test/data.csv', 'test'],
    ['test_orders.sql', 'test'],
    ['orders_test.py', 'test'],
    ['orders_test.go', 'test'],
    ['orders_test.sql', 'pipeline-sql'],
    ['hooks/notify.py', 'hook'],
    ['hook_a.sql', 'hook'],
    ['pre_run.sql', 'hook'],
    ['post_run.py', 'hook'],
    ['tests/pre_run.sql', 'test'],
    ['data.parquet', ''],
  ])('the type of %s is %p', (file, type) =>
    expect(fileTypeOf(prefix + file)).toBe(type as ReturnType<typeof fileTypeOf>),
  )

  test('names of namespaces and pipelines do not determine the type', () => {
    expect(fileTypeOf('tests/pipelines/silver/hooks/pipeline.sql')).toBe('pipeline-sql')
    expect(fileTypeOf('hooks/README')).toBe('doc')
  })
})
