import { queryOptions } from '@tanstack/react-query'
import { ok } from './client.ts'
import { dropFolder, FILE_NAMES } from './files.ts'
import { folderOf, type Named, pipelineAt, pipelinesChanged } from './pipelines.ts'
import { refresh } from './queries.ts'

const KEY = ['tests']

export const testsQuery = (at: Named) =>
  queryOptions({
    queryKey: [...KEY, at.ns, at.layer, at.name],
    queryFn: () => ok(pipelineAt(at).tests.get({ query: {} })),
  })

/** Executes all tests on main. */
export const runTests = async (at: Named) => (await ok(pipelineAt(at).tests.run.post())).results
export type TestResult = Awaited<ReturnType<typeof runTests>>[number]

/** A test is a file of the draft. */
async function testsChanged(at: Named) {
  dropFolder(`${folderOf(at)}tests/quality/`)
  await refresh(KEY, FILE_NAMES)
  await pipelinesChanged()
}

type NewTest = Parameters<ReturnType<typeof pipelineAt>['tests']['post']>[0]

export async function createTest(at: Named, test: NewTest) {
  await ok(pipelineAt(at).tests.post(test))
  await testsChanged(at)
}

export async function deleteTest(at: Named, testName: string) {
  await ok(pipelineAt(at).tests({ testName }).delete())
  await testsChanged(at)
}
