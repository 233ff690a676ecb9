// Plays many seeds. Child processes play parts of them and report their progress. A process that dies fails one seed; another
// process plays the seeds after it.
import { eachLine } from '../sidecars/supervisor/lines.ts'
import { type Bench, type Result, simulate } from './simulate.ts'

interface Range {
  from: number
  count: number
}

/** Seeds per process. Then a new process with a new server continues, so that no state grows for hours. */
const PART_SEEDS = 500
const PROGRESS_MS = 30_000
/** A normal seed takes less than a second. */
const HANGS_AFTER_MS = 300_000
/** Maximum number of failing seeds that a process prints with their steps. */
const PRINTED_MAX = 3
/** Prefix of an output line that is a message to the parent process. */
const TO_PARENT = '@sluice '

type Message =
  | { kind: 'begun'; seed: number }
  | ({ kind: 'played'; isFailed: boolean } & Pick<Result, 'seed' | 'steps' | 'runs' | 'faults'>)

const sendToParent = (message: Message) => console.log(`${TO_PARENT}${JSON.stringify(message)}`)

/** Plays the seeds of one process, one after the other. Returns the exit code. */
export async function playPart({ from, count }: Range, open: () => Promise<Bench>): Promise<number> {
  let bench = await open()
  let failed = 0
  for (let seed = from; seed < from + count; seed++) {
    sendToParent({ kind: 'begun', seed })
    const result = await simulate(bench, seed).catch((error: unknown) => broken(seed, error))
    const { steps, runs, faults, violations } = result
    if (violations.length > 0) {
      failed += 1
      if (failed <= PRINTED_MAX) printResult(result, false)
      else console.log(`FAILED seed ${seed}: ${violations[0]?.invariant}: ${violations[0]?.what}`)
      // The next seed gets a new bench, without leftovers of the failed one.
      bench = await open()
    }
    sendToParent({ kind: 'played', seed, isFailed: violations.length > 0, steps, runs, faults })
  }
  return failed === 0 ? 0 : 1
}

/** The result of a seed that ended with an error. */
const broken = (seed: number, error: unknown): Result => ({
  seed,
  violations: [
    {
      invariant: 'every seed is played to its end',
      what: error instanceof Error ? (error.stack ?? error.message) : String(error),
    },
  ],
  story: [],
  digest: '',
  steps: 0,
  runs: 0,
  faults: {},
})

/** Plays all seeds and prints the progress. Returns the exit code: 0 if every seed passed. */
export async function playAll({ from, count }: Range, processes: number): Promise<number> {
  const startedAt = performance.now()
  const seconds = () => (performance.now() - startedAt) / 1_000
  const parts: Range[] = []
  const size = Math.min(PART_SEEDS, Math.ceil(count / processes))
  for (let first = from; first < from + count; first += size)
    parts.push({ from: first, count: Math.min(size, from + count - first) })
  const totals = { played: 0, steps: 0, runs: 0, cpuMs: 0, faults: {} as Record<string, number> }
  const failed: number[] = []

  const progress = () => {
    const each = seconds() / Math.max(1, totals.played)
    console.log(
      `${totals.played} of ${count} seeds, ${failed.length} failed, ${(1 / each).toFixed(2)} seeds/s, ${Math.round(((count - totals.played) * each) / 60)} min left`,
    )
  }
  const timer = setInterval(progress, PROGRESS_MS)
  const onMessage = (message: Message) => {
    if (message.kind === 'begun') return
    totals.played += 1
    totals.steps += message.steps
    totals.runs += message.runs
    for (const [kind, times] of Object.entries(message.faults))
      totals.faults[kind] = (totals.faults[kind] ?? 0) + times
    if (message.isFailed) failed.push(message.seed)
  }
  const playParts = async () => {
    for (let part = parts.shift(); part !== undefined; part = parts.shift()) {
      const { lost, cpuMs } = await playElsewhere(part, onMessage)
      totals.cpuMs += cpuMs
      if (lost === null) continue
      console.log(
        `FAILED seed ${lost.seed}: ${lost.why}\n  replay: npm run simulate -- --seed ${lost.seed} --verbose`,
      )
      totals.played += 1
      failed.push(lost.seed)
      const next = lost.seed + 1
      if (next < part.from + part.count) parts.unshift({ from: next, count: part.from + part.count - next })
    }
  }
  await Promise.all(Array.from({ length: processes }, playParts))
  clearInterval(timer)

  const { steps, runs, faults, cpuMs } = totals
  console.log(
    `${count} seeds from ${from} in ${seconds().toFixed(1)} s by ${processes} processes: ${(seconds() / count).toFixed(3)} s each, ${(cpuMs / count / 1_000).toFixed(3)} s of processors with Postgres; ${steps} steps, ${runs} runs, faults ${JSON.stringify(faults)}`,
  )
  if (failed.length > 0) console.log(`failing seeds: ${failed.sort((a, b) => a - b).join(' ')}`)
  console.log(`${count - failed.length} passed, ${failed.length} failed`)
  return failed.length === 0 && totals.played === count ? 0 : 1
}

/** Plays a part in a child process. `lost`: the seed at which the process died. */
async function playElsewhere(part: Range, onMessage: (message: Message) => void) {
  const child = Bun.spawn(
    [
      process.execPath,
      new URL('./main.ts', import.meta.url).pathname,
      '--part',
      `--from=${part.from}`,
      `--seeds=${part.count}`,
    ],
    { stdout: 'pipe', stderr: 'inherit' },
  )
  let [begun, played] = [part.from, part.from - 1]
  let hasHung = false
  const killChild = () => {
    hasHung = true
    child.kill('SIGKILL')
  }
  let watchdog = setTimeout(killChild, HANGS_AFTER_MS)
  await eachLine(child.stdout, (line) => {
    clearTimeout(watchdog)
    watchdog = setTimeout(killChild, HANGS_AFTER_MS)
    if (!line.startsWith(TO_PARENT)) return console.log(line)
    const message = JSON.parse(line.slice(TO_PARENT.length)) as Message
    if (message.kind === 'begun') begun = message.seed
    else played = message.seed
    onMessage(message)
  })
  clearTimeout(watchdog)
  const code = await child.exited
  const why = hasHung ? `no output for ${HANGS_AFTER_MS / 1_000} s` : `process exited with code ${code}`
  return {
    lost: played === part.from + part.count - 1 ? null : { seed: Math.max(begun, played + 1), why },
    cpuMs: Number(child.resourceUsage()?.cpuTime.total ?? 0) / 1_000,
  }
}

/** Prints a failed seed with its last steps; with `isVerbose`, any seed with all steps. */
export function printResult({ seed, story, violations }: Result, isVerbose: boolean): void {
  if (violations.length > 0 || isVerbose) {
    console.log(violations.length > 0 ? `FAILED seed ${seed}` : `seed ${seed}`)
    for (const line of isVerbose ? story : story.slice(-25)) console.log(`  ${line}`)
  }
  for (const { invariant, what } of violations.slice(0, 5)) console.log(`  VIOLATED ${invariant}: ${what}`)
  if (violations.length > 0) console.log(`  replay: npm run simulate -- --seed ${seed} --verbose`)
}
