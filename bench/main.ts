// `npm run bench [name...]`: each benchmark prints its figures beside a peer or a limit measured in the same run. No benchmark
// asserts a figure.
import { benchBranchMerges } from './branch-merges.ts'
import { benchCommit } from './commit.ts'
import { benchConsoleScale } from './console-scale.ts'
import { benchControlPlane } from './control-plane.ts'
import { benchEnginesRead } from './engines-read.ts'
import { benchLakeSize } from './lake-size.ts'
import { benchLargeJoin } from './large-join.ts'
import { benchLineage } from './lineage.ts'
import { benchLists } from './lists.ts'
import { benchManyFiles } from './many-files.ts'
import { benchMerge } from './merge.ts'
import { benchNessie } from './nessie.ts'
import { benchPreview } from './preview.ts'
import { benchQuery } from './query.ts'
import { benchReaper } from './reaper.ts'
import { benchReplicas } from './replicas.ts'
import { benchRunLatency } from './run-latency.ts'
import { benchScale } from './scale.ts'
import { benchSchedulerTick } from './scheduler-tick.ts'
import { benchSse } from './sse.ts'
import { benchStart } from './start.ts'
import { benchTpch } from './tpch.ts'
import { benchTpchEngines } from './tpch-engines.ts'
import { benchTraces } from './traces.ts'
import { benchTriggerLatency } from './trigger-latency.ts'
import { benchUploads } from './uploads.ts'
import { benchVersions } from './versions.ts'

const BENCHMARKS: Record<string, () => Promise<void>> = {
  start: benchStart,
  'run-latency': benchRunLatency,
  'control-plane': benchControlPlane,
  'scheduler-tick': benchSchedulerTick,
  'trigger-latency': benchTriggerLatency,
  uploads: benchUploads,
  scale: benchScale,
  replicas: benchReplicas,
  reaper: benchReaper,
  lists: benchLists,
  lineage: benchLineage,
  'console-scale': benchConsoleScale,
  merge: benchMerge,
  'lake-size': benchLakeSize,
  'branch-merges': benchBranchMerges,
  commit: benchCommit,
  nessie: benchNessie,
  preview: benchPreview,
  sse: benchSse,
  query: benchQuery,
  'many-files': benchManyFiles,
  'engines-read': benchEnginesRead,
  tpch: benchTpch,
  'tpch-engines': benchTpchEngines,
  traces: benchTraces,
  'large-join': benchLargeJoin,
}

const names = process.argv.slice(2)
if (names[0] === 'versions') {
  await benchVersions(names.slice(1))
  process.exit(0)
}
const unknown = names.filter((name) => !(name in BENCHMARKS))
if (unknown.length > 0) {
  console.error(`unknown benchmark ${unknown.join(', ')}: use ${Object.keys(BENCHMARKS).join(', ')}`)
  process.exit(2)
}
for (const [name, run] of Object.entries(BENCHMARKS)) {
  if (names.length > 0 && !names.includes(name)) continue
  console.log(`\n${name}`)
  await run()
}
