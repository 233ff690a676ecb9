// MiniJinja as WASM. Each use gets its own instance with limits on memory and work. So all effects of a template end with the
// instance, and a trap (out of memory, work or stack) affects no other use. An instance costs 0.3 ms.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import * as glue from 'minijinja-js/dist/bundler/minijinja_js_bg.js'
import { METER, withLimits } from './wasm-limits.ts'

type TemplateEnvironment = glue.Environment

export const ENGINE_LIMITS = {
  /** Stops a template that builds a huge text from a small one. */
  memoryBytes: 67_108_864,
  /** Calls and loop iterations in the engine: at worst, a few tenths of a second. Stops every other expensive template. */
  work: 30_000_000n,
} as const

/** The work that several templates may do together. */
export interface WorkBudget {
  left: bigint
}

/** The engine trapped because the template exceeded a limit. The message names the limit. */
export class EngineTrap extends Error {
  override readonly name = 'EngineTrap'
}

/** Runs `use` with a new environment, and takes its work from a budget. Throws the engine's errors and `EngineTrap`. */
export function withEnvironment<Result>(
  budget: WorkBudget,
  use: (environment: TemplateEnvironment) => Result,
): Result {
  module ??= compile()
  const instance = new WebAssembly.Instance(module, { './minijinja_js_bg.js': { ...glue } })
  const { memory, [METER]: meter } = instance.exports
  if (!(memory instanceof WebAssembly.Memory) || !(meter instanceof WebAssembly.Global))
    throw new TypeError('the template engine exports no memory or no meter')
  meter.value = ENGINE_LIMITS.work
  glue.__wbg_set_wasm(instance.exports)
  const environment = new glue.Environment()
  const work = budget.left < ENGINE_LIMITS.work ? budget.left : ENGINE_LIMITS.work
  meter.value = work
  try {
    return use(environment)
  } catch (error) {
    if (!(error instanceof WebAssembly.RuntimeError || error instanceof RangeError)) throw error
    const tooLong =
      work < ENGINE_LIMITS.work
        ? 'the templates of the pipeline take too long together: simplify their loops'
        : 'the template takes too long: simplify its loops'
    const reason =
      meter.value < 0n
        ? tooLong
        : `the template needs too much memory (limit: ${ENGINE_LIMITS.memoryBytes} bytes) or is nested too deeply`
    throw new EngineTrap(reason, { cause: error })
  } finally {
    budget.left -= meter.value < 0n ? work : work - meter.value
    meter.value = ENGINE_LIMITS.work
    release(environment)
    // The glue caches its view of the memory until the buffer is detached. Growing by zero pages detaches it.
    memory.grow(0)
  }
}

let module: WebAssembly.Module | undefined

/** Also removes the environment from the glue's finalizers, which would otherwise free it in a later instance. */
function release(environment: TemplateEnvironment): void {
  try {
    environment.free()
  } catch {
    // After a trap the module still holds the environment, which disappears with its instance.
  }
}

function compile(): WebAssembly.Module {
  const path = createRequire(import.meta.url).resolve('minijinja-js/dist/bundler/minijinja_js_bg.wasm')
  return new WebAssembly.Module(withLimits(readFileSync(path), ENGINE_LIMITS.memoryBytes))
}
