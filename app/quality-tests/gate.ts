// The gate of merges: the published tests of severity error, on the tables as a merge would leave them.
import type { MessageInitShape } from '@bufbuild/protobuf'
import { type TableName, tableKey } from '../../ground/names.ts'
import { parseTest, testNameOf } from '../../lake/pipeline/quality.ts'
import type { LakeAccessSchema } from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import type { Reader } from '../access/code-visibility.ts'
import { retryLater } from '../core/errors.ts'
import type { DraftFile } from '../pipelines/draft-files.ts'
import type { PipelineService } from '../pipelines/service.ts'
import type { GateResult } from './schema.ts'
import { type QualityTestDeps, resultOf } from './service.ts'

/** Pipelines whose files are read, and whose tests are evaluated, at the same time. */
const PIPELINES_AT_ONCE = 4
/** Time limit of all tests of one merge. */
const GATE_MS = 600_000

/** Main at a commit, with the changes of a branch in place of its own tables. */
interface MergedView {
  commit: number
  branch: string
}

interface GateDeps {
  pipelines: Pick<PipelineService, 'publishedTested'>
  runQualityTests: QualityTestDeps['runQualityTests']
  readMerged(
    view: MergedView,
    as: { reader: Reader | null },
  ): Promise<MessageInitShape<typeof LakeAccessSchema>>
}

export interface Judgement {
  results: GateResult[]
  /** The tables that the tests read. */
  reads: string[]
}

/** The files of drafts that are published with the merge, by table. Their tests replace the published ones. */
type Drafts = ReadonlyMap<string, readonly DraftFile[]>

export type Gate = ReturnType<typeof makeGate>

/** Evaluates tests with the visibility of `reader`. A test that names a table which the reader does not see fails. */
export function makeGate({ pipelines, runQualityTests, readMerged }: GateDeps) {
  async function judgeTable(
    table: TableName,
    view: MergedView,
    as: { reader: Reader | null; signal: AbortSignal },
    drafts: Drafts,
  ): Promise<Judgement> {
    const { namespace, layer, name: pipelineName } = table
    const files = (drafts.get(tableKey(table)) ?? (await pipelines.publishedTested(table))).filter(isJudged)
    if (!files.some(isTest)) return { results: [], reads: [] }
    const request = {
      namespace,
      layer,
      pipelineName,
      files: files.map(({ name: path, text }) => ({ path, content: text })),
      lake: await readMerged(view, as),
    }
    const response = await runQualityTests(request, as.signal)
    if (response === null) throw retryLater('runner is not available')
    const key = tableKey(table)
    return {
      results: response.results.map((result) => ({ table: key, ...resultOf(result) })),
      reads: [key, ...response.tables],
    }
  }

  return async function judge(
    tables: readonly TableName[],
    view: MergedView,
    { reader, signal }: { reader: Reader | null; signal: AbortSignal },
    drafts: Drafts = new Map(),
  ): Promise<Judgement> {
    const as = { reader, signal: AbortSignal.any([signal, AbortSignal.timeout(GATE_MS)]) }
    const judged: Judgement[] = []
    for (let at = 0; at < tables.length; at += PIPELINES_AT_ONCE)
      judged.push(
        ...(await Promise.all(
          tables.slice(at, at + PIPELINES_AT_ONCE).map((table) => judgeTable(table, view, as, drafts)),
        )),
      )
    return {
      results: judged.flatMap(({ results }) => results),
      reads: [...new Set(judged.flatMap(({ reads }) => reads))],
    }
  }
}

const isTest = ({ name }: DraftFile) => testNameOf(name) !== undefined

/** Tests of severity warn block no merge, so they are not evaluated. */
function isJudged({ name: path, text }: DraftFile): boolean {
  const name = testNameOf(path)
  return name === undefined || parseTest(name, { path, text }).test.severity === 'error'
}
