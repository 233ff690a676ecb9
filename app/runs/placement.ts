// Decides which runner may execute a run.
import type { Placement } from '../../drizzle/schema/pipeline.ts'
import { SPARK_LABEL } from '../../lake/pipeline/config.ts'

/** The offer of a runner to its runs. */
export interface RunnerOffer {
  labels: readonly string[]
  /** Memory of an engine that executes alone. */
  memoryBytes: number
}

/** The offer of a runner that does not describe itself. It takes runs without demands. */
export const NO_OFFER: RunnerOffer = { labels: [], memoryBytes: 0 }

/** A free slot of a runner. */
export interface RunnerSlot extends RunnerOffer {
  url: string
}

/** A slot of a runner without labels, for runs without demands. */
export const anySlot = (url: string): RunnerSlot => ({ url, ...NO_OFFER })

/** Whether a runner with this offer may execute the run. */
export const isOffered = (placement: Placement | null, { labels, memoryBytes }: RunnerOffer): boolean =>
  placement === null ||
  (placement.runsOn.every((label) => labels.includes(label)) && (placement.memoryBytes ?? 0) <= memoryBytes)

/** A run that asks for memory gets the whole runner, because engines divide the memory of a runner. */
export const asksForRunner = (placement: Placement | null): boolean =>
  (placement?.memoryBytes ?? null) !== null

/**
 * Removes and returns a slot for the run; undefined: no slot fits. The run takes a fitting slot with the fewest labels, so
 * that runs without demands leave special runners free.
 */
export function takeSlot(slots: RunnerSlot[], placement: Placement | null): RunnerSlot | undefined {
  let best = -1
  for (const [n, slot] of slots.entries()) {
    const isBetter = best === -1 || slot.labels.length < (slots[best]?.labels.length ?? 0)
    if (isBetter && isOffered(placement, slot)) best = n
  }
  return best === -1 ? undefined : slots.splice(best, 1)[0]
}

/** Why none of the runners may execute the run; null: one of them may. */
export function refusalOf(placement: Placement, offers: readonly RunnerOffer[]): string | null {
  if (offers.some((offer) => isOffered(placement, offer))) return null
  const { runsOn, memoryBytes } = placement
  const isOfferedBySome = (features: readonly string[]) =>
    offers.some((offer) => features.every((feature) => offer.labels.includes(feature)))
  if (runsOn.includes(SPARK_LABEL) && !isOfferedBySome([SPARK_LABEL]))
    return `no runner has engine spark: ${NO_SPARK_HELP}`
  const features = runsOn.filter((label) => label.includes(':'))
  if (!isOfferedBySome(features))
    return `no runner knows ${features.join(', ')} (config.yaml): upgrade the runners`
  const labels = `the labels ${runsOn.join(', ')} (runs_on)`
  if (memoryBytes === null) return `no runner has ${labels}`
  const most = Math.max(
    0,
    ...offers
      .filter((offer) => isOffered({ ...placement, memoryBytes: null }, offer))
      .map((offer) => offer.memoryBytes),
  )
  const memory = `${megabytes(memoryBytes)} of memory for one run (memory); the largest gives ${megabytes(most)}`
  return runsOn.length === 0 ? `no runner gives ${memory}` : `no runner with ${labels} gives ${memory}`
}

/** How an operator adds engine `spark` to a runner. */
const NO_SPARK_HELP = 'set SPARK_REMOTE, or install pysail in the Python of a runner'

const megabytes = (bytes: number) => `${Math.floor(bytes / 1_048_576)} MB`
