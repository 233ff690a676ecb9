// Times of interactions with a page, taken in the page itself.
import type { BrowserContext, CDPSession, Page } from '@playwright/test'
import { figuresOf } from './figures.ts'

/** The aim for each figure. */
const LIMIT_MS = 100
/** Time after the result in which late requests and tasks still belong to the interaction. */
const REST_MS = 500
const STEPS = 40

/** The result of an interaction: an element, with a text, or with another text than before. */
export interface Shown {
  css: string
  text?: string
  isChange?: boolean
}

interface Sample {
  /** The longest task of the main thread. Browsers report tasks from 50 ms on, so 0 means less. */
  blockedMs: number
  /** Processor time of the main thread in all tasks. Other programs on the machine do not change it much. */
  cpuMs: number
  /** From the input to the next frame, or the longest frame of a movement. Below 16 ms browsers report nothing. */
  paintMs: number
  /** The slowest request, from its start to the first byte of the answer. */
  requestMs: number
  /** From the input to the frame with the result. For changes from outside: from the answer to that frame. */
  shownMs: number
}

/** Records of the page about itself. */
interface Recorder {
  since: number | null
  textBefore: string
  tasks: PerformanceEntry[]
  events: PerformanceEntry[]
  gaps: number[]
  isMoving: boolean
}
declare global {
  var bench: Recorder
}

export class Interactions {
  readonly #samples = new Map<string, Sample[]>()
  readonly #slowest = new Map<string, { path: string; ms: number }>()
  readonly #refused = new Set<string>()
  readonly #sessions = new Map<Page, CDPSession>()
  #cpuBefore = 0

  /** Call this before the first page is opened. */
  async watch(context: BrowserContext) {
    await context.addInitScript(() => {
      globalThis.bench = { since: null, textBefore: '', tasks: [], events: [], gaps: [], isMoving: false }
      new PerformanceObserver((list) => bench.tasks.push(...list.getEntries())).observe({ type: 'longtask' })
      new PerformanceObserver((list) => bench.events.push(...list.getEntries())).observe({
        type: 'event',
        durationThreshold: 16,
      } as PerformanceObserverInit)
      // Some controls act when the button goes down, others when it comes up.
      for (const type of ['keydown', 'pointerdown'])
        addEventListener(type, (event) => (bench.since ??= event.timeStamp), { capture: true })
      performance.setResourceTimingBufferSize(10_000)
    })
  }

  /** Measures one input and its result. */
  async measure(page: Page, name: string, act: () => Promise<unknown>, shown: Shown) {
    await this.#arm(page, shown)
    const shownAt = page.evaluate(frameWith, { ...shown, needsInput: true }).catch(asNote(name))
    await act()
    await this.#read(page, name, await shownAt, 'input')
  }

  /** Measures a change that comes from the service. */
  async measureLive(page: Page, name: string, act: () => Promise<unknown>, shown: Shown) {
    await this.#arm(page, shown)
    const shownAt = page.evaluate(frameWith, { ...shown, needsInput: false }).catch(asNote(name))
    await act()
    await this.#read(page, name, await shownAt, 'service')
  }

  /** Measures the frames while `move` is called for each step. */
  async measureFrames(page: Page, name: string, move: (step: number) => Promise<unknown>) {
    await this.#arm(page, { css: 'body' })
    await page.evaluate(() => {
      bench.since = performance.now()
      bench.isMoving = true
      let before = performance.now()
      const next = (now: number) => {
        bench.gaps.push(now - before)
        before = now
        if (bench.isMoving) requestAnimationFrame(next)
      }
      requestAnimationFrame(next)
    })
    for (let step = 0; step < STEPS; step++) await move(step)
    const shownAt = await page.evaluate(() => {
      bench.isMoving = false
      return performance.now()
    })
    await this.#read(page, name, shownAt, 'frames')
  }

  print() {
    const heads = ['blocked', 'cpu', 'paint', 'request', 'shown']
    console.log(
      `  ${'best / p50 in ms; ! is over the limit of 100'.padEnd(44)}${heads.map((head) => head.padStart(14)).join('')}  slowest request`,
    )
    for (const [name, samples] of this.#samples) {
      const cells = (['blockedMs', 'cpuMs', 'paintMs', 'requestMs', 'shownMs'] as const).map((key) =>
        cellOf(samples.map((sample) => sample[key])),
      )
      const slowest = this.#slowest.get(name)
      console.log(`  ${name.padEnd(44)}${cells.join('')}  ${slowest?.path ?? ''}`)
    }
    for (const refused of this.#refused) console.log(`  refused: ${refused}`)
  }

  /** Milliseconds of processor time that the main thread of the page has used. */
  async #cpuMs(page: Page): Promise<number> {
    let session = this.#sessions.get(page)
    if (session === undefined) {
      session = await page.context().newCDPSession(page)
      await session.send('Performance.enable', { timeDomain: 'threadTicks' })
      this.#sessions.set(page, session)
      page.once('close', () => this.#sessions.delete(page))
    }
    const { metrics } = await session.send('Performance.getMetrics')
    return 1_000 * (metrics.find(({ name }) => name === 'TaskDuration')?.value ?? Number.NaN)
  }

  async #arm(page: Page, { css }: Shown) {
    this.#cpuBefore = await this.#cpuMs(page)
    await page.evaluate((selector) => {
      const textBefore = [...document.querySelectorAll(selector)].map(({ textContent }) => textContent).join()
      Object.assign(bench, { since: null, textBefore, tasks: [], events: [], gaps: [] })
      performance.clearResourceTimings()
    }, css)
  }

  async #read(page: Page, name: string, shownAt: number, from: 'input' | 'service' | 'frames') {
    if (Number.isNaN(shownAt)) return
    await page.waitForTimeout(REST_MS)
    const cpuMs = (await this.#cpuMs(page)) - this.#cpuBefore
    const { since, tasks, events, gaps, requests } = await page.evaluate(() => {
      const after = bench.since ?? 0
      const longest = (entries: readonly PerformanceEntry[]) =>
        Math.max(
          0,
          ...entries
            .filter(({ startTime, duration }) => startTime + duration >= after)
            .map(({ duration }) => duration),
        )
      return {
        since: after,
        tasks: longest(bench.tasks),
        events: longest(bench.events),
        gaps: Math.max(0, ...bench.gaps),
        requests: performance
          .getEntriesByType('resource')
          .map((entry) => entry as PerformanceResourceTiming)
          .filter(({ name, startTime }) => /\/(api\/v1|health)\//.test(name) && startTime >= after)
          .map((entry) => ({
            path: new URL(entry.name).pathname + new URL(entry.name).search,
            ms: entry.responseStart - entry.requestStart,
            end: entry.responseEnd,
            status: entry.responseStatus,
          })),
      }
    })
    for (const { path, status } of requests)
      if (status >= 400) this.#refused.add(`${name}: ${status} ${path}`)
    const slowest = requests.toSorted((a, b) => b.ms - a.ms)[0]
    if (slowest && slowest.ms > (this.#slowest.get(name)?.ms ?? 0)) this.#slowest.set(name, slowest)
    const answered = Math.max(0, ...requests.map(({ end }) => end).filter((end) => end <= shownAt))
    const sample = {
      blockedMs: tasks,
      cpuMs,
      paintMs: from === 'frames' ? gaps : events,
      requestMs: slowest?.ms ?? Number.NaN,
      shownMs:
        from === 'frames' ? Number.NaN : shownAt - (from === 'service' && answered > 0 ? answered : since),
    }
    this.#samples.set(name, [...(this.#samples.get(name) ?? []), sample])
  }
}

/** Resolves with the time of the frame that shows the result. Executed in the page. */
async function frameWith({ css, text, isChange, needsInput }: Shown & { needsInput: boolean }) {
  const nextFrame = () => new Promise((resolve) => requestAnimationFrame(resolve))
  const isShown = () => {
    const found = [...document.querySelectorAll(css)].map(({ textContent }) => textContent)
    if (found.length === 0 || (isChange && found.join() === bench.textBefore)) return false
    return text === undefined || found.some((each) => each?.includes(text))
  }
  const until = performance.now() + 20_000
  while ((needsInput && bench.since === null) || !isShown()) {
    if (performance.now() > until) throw new Error(`${css} ${text ?? ''} is not shown`)
    await nextFrame()
  }
  // A canvas is painted in the frame after the one with its element.
  if (css.includes('canvas')) await nextFrame()
  await new Promise((resolve) => setTimeout(resolve))
  return performance.now()
}

const asNote = (name: string) => (error: Error) => {
  console.log(`  ${name}: ${error.message.split('\n')[0]}`)
  return Number.NaN
}

function cellOf(values: readonly number[]): string {
  const known = values.filter((value) => !Number.isNaN(value))
  if (known.length === 0) return '–'.padStart(14)
  const { p50 } = figuresOf(known)
  return `${Math.min(...known).toFixed(0)} / ${p50.toFixed(0)}${p50 > LIMIT_MS ? ' !' : '  '}`.padStart(14)
}
