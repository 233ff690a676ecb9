import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { METER, withLimits } from './wasm-limits.ts'

const path = createRequire(import.meta.url).resolve('minijinja-js/dist/bundler/minijinja_js_bg.wasm')
const limited = withLimits(readFileSync(path), 64 * 65_536)

test('rewrites to a valid module with the same imports and a meter', () => {
  const [before, after] = [readFileSync(path), limited].map((bytes) => new WebAssembly.Module(bytes))
  if (before === undefined || after === undefined) throw new Error('two modules')
  expect(WebAssembly.Module.imports(after)).toEqual(WebAssembly.Module.imports(before))
  expect(WebAssembly.Module.exports(after)).toEqual([
    ...WebAssembly.Module.exports(before),
    { name: METER, kind: 'global' },
  ])
})

test('limits the memory of the rewritten module', () => {
  const module = new WebAssembly.Module(limited)
  const imports = Object.fromEntries(WebAssembly.Module.imports(module).map(({ name }) => [name, () => 0]))
  const { memory } = new WebAssembly.Instance(module, { './minijinja_js_bg.js': imports }).exports
  if (!(memory instanceof WebAssembly.Memory)) throw new Error('no memory')
  expect(() => memory.grow(64)).toThrow(RangeError)
  memory.grow(64 - memory.buffer.byteLength / 65_536)
  expect(memory.buffer.byteLength).toBe(64 * 65_536)
})

test('refuses an unexpected module completely', () => {
  expect(() => withLimits(limited, 65_536)).toThrow('the memory already has a maximum')
  expect(() => withLimits(Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0), 65_536)).toThrow(
    'section 1 is missing',
  )
  expect(() => withLimits(limited.subarray(0, limited.length / 2), 65_536)).toThrow(TypeError)
})
