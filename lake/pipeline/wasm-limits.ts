// Adds limits to a WebAssembly module: a maximum for its memory, and a meter for its work. Each loop iteration and each call
// subtracts 1 from a global. A copy or fill of memory subtracts 1, and 1 more per 64 bytes. Below zero, the module traps.
// Nothing else takes long: between two of these, a function only goes forward.
//
// New functions, types and globals follow the existing ones, so that no index changes. Format:
// https://webassembly.github.io/spec/core/binary

/** The export name of the meter, a mutable 64-bit global with the remaining work. */
export const METER = 'meter'

const PAGE_BYTES = 65_536
const HEADER_BYTES = 8

const SECTION = { types: 1, imports: 2, functions: 3, memories: 5, globals: 6, exports: 7, code: 10 } as const

const I32 = 0x7f
const I64 = 0x7e
const GLOBAL_KIND = 3
const [CALL, END, LOOP] = [0x10, 0x0b, 0x03]
const MEMORY_COPY = [0xfc, 10, 0, 0]
const MEMORY_FILL = [0xfc, 11, 0]

/** Throws `TypeError` for a module with unsupported features. */
export function withLimits(module: Uint8Array, memoryBytes: number): Uint8Array<ArrayBuffer> {
  const sections = sectionsOf(module)
  const read = (id: number): Reader => new Reader(sections.get(id) ?? unsupported(`section ${id} is missing`))
  const types = read(SECTION.types).leb()
  const functions = importedFunctions(read(SECTION.imports)) + read(SECTION.functions).leb()
  const meter = read(SECTION.globals).leb()
  const append = (id: number, ...items: number[][]) => sections.set(id, appended(read(id), items))
  sections.set(SECTION.code, meteredCode(read(SECTION.code), functions))
  sections.set(SECTION.memories, limitedMemory(read(SECTION.memories), memoryBytes / PAGE_BYTES))
  // The types () and (i32, i32, i32), and the functions that meter a step, a copy and a fill.
  append(SECTION.types, [0x60, 0, 0], [0x60, 3, I32, I32, I32, 0])
  append(SECTION.functions, leb(types), leb(types + 1), leb(types + 1))
  append(SECTION.globals, [I64, 1, 0x42, 0, END])
  append(SECTION.exports, [METER.length, ...new TextEncoder().encode(METER), GLOBAL_KIND, ...leb(meter)])
  append(
    SECTION.code,
    sized([0, ...meterCode(meter, ONE), END]),
    sized([0, ...meterCode(meter, BY_SIZE), ...ARGUMENTS, ...MEMORY_COPY, END]),
    sized([0, ...meterCode(meter, BY_SIZE), ...ARGUMENTS, ...MEMORY_FILL, END]),
  )
  const bytes = [...sections].flatMap(([id, body]) => [Uint8Array.from([id, ...leb(body.length)]), body])
  return Buffer.concat([module.subarray(0, HEADER_BYTES), ...bytes])
}

/** local.get 0, 1 and 2. */
const ARGUMENTS = [0x20, 0, 0x20, 1, 0x20, 2]
/** i64.const 1 */
const ONE = [0x42, 1]
/** 1 + (the third argument >> 6) */
const BY_SIZE = [0x20, 2, 0xad, 0x42, 6, 0x88, 0x42, 1, 0x7c]

/** Subtracts an amount from the meter, and traps when the meter is below zero. */
function meterCode(meter: number, amount: readonly number[]): number[] {
  const index = leb(meter)
  const subtract = [0x23, ...index, ...amount, 0x7d, 0x24, ...index]
  return [...subtract, 0x23, ...index, 0x42, 0, 0x53, 0x04, 0x40, 0x00, END]
}

/**
 * Inserts a call at the start of every function and loop, and replaces every copy and fill with a call. `firstMeter` is the
 * first of the three functions.
 */
function meteredCode(code: Reader, firstMeter: number): Uint8Array<ArrayBuffer> {
  const calls = {
    step: [CALL, ...leb(firstMeter)],
    copy: [CALL, ...leb(firstMeter + 1)],
    fill: [CALL, ...leb(firstMeter + 2)],
  }
  const count = code.leb()
  const parts: Uint8Array[] = [Uint8Array.from(leb(count))]
  for (let index = 0; index < count; index += 1) {
    const end = code.leb() + code.at
    const body: Uint8Array[] = []
    let start = code.at
    const replaceUpTo = (upTo: number, replacement: number[]) => {
      body.push(code.bytes.subarray(start, upTo), Uint8Array.from(replacement))
      start = code.at
    }
    for (let groups = code.leb(); groups > 0; groups -= 1) {
      code.leb()
      code.byte()
    }
    replaceUpTo(code.at, calls.step)
    while (code.at < end) {
      const from = code.at
      const instruction = code.instruction()
      if (instruction === LOOP) replaceUpTo(code.at, calls.step)
      else if (instruction === COPY) replaceUpTo(from, calls.copy)
      else if (instruction === FILL) replaceUpTo(from, calls.fill)
    }
    if (code.at !== end) unsupported('a function ends in the middle of an instruction')
    replaceUpTo(end, [])
    const metered = Buffer.concat(body)
    parts.push(Uint8Array.from(leb(metered.length)), metered)
  }
  return Buffer.concat(parts)
}

const WIDE = 0xfc
const [COPY, FILL] = [0xfc0a, 0xfc0b]

/** The number of LEB128 numbers after each one-byte instruction. */
const NUMBERS_AFTER = new Uint8Array(256)
NUMBERS_AFTER.fill(1, 0x02, 0x05)
NUMBERS_AFTER.fill(1, 0x0c, 0x0e)
NUMBERS_AFTER.fill(1, 0x20, 0x27)
NUMBERS_AFTER.fill(2, 0x28, 0x3f)
NUMBERS_AFTER.fill(1, 0x3f, 0x43)
NUMBERS_AFTER[0x10] = 1
NUMBERS_AFTER[0x11] = 2
const LAST_INSTRUCTION = 0xc4

/** The number of LEB128 numbers after 0xfc: conversions, then copy and fill of memories and tables. */
const NUMBERS_AFTER_WIDE: readonly number[] = [0, 0, 0, 0, 0, 0, 0, 0, 2, 1, 2, 1, 2, 1, 2, 1, 1, 1]
class Reader {
  at = 0
  constructor(readonly bytes: Uint8Array) {}

  byte(): number {
    const byte = this.bytes[this.at] ?? unsupported('the module is truncated')
    this.at += 1
    return byte
  }

  /** Reads an unsigned LEB128 number. For a signed number, only the end position is correct. */
  leb(): number {
    let value = 0
    for (let shift = 1; ; shift *= 128) {
      const byte = this.byte()
      value += (byte & 0x7f) * shift
      if (byte < 0x80) return value
    }
  }

  /** Skips one instruction with its operands. Returns the instruction's code. */
  instruction(): number {
    const code = this.byte()
    if (code === WIDE) {
      const wide = this.leb()
      this.#numbers(NUMBERS_AFTER_WIDE[wide] ?? unsupported(`unknown instruction 0xfc ${wide}`))
      return WIDE * 0x100 + wide
    }
    // A jump table, a select with types, and constants of 4 and 8 bytes.
    if (code === 0x0e) this.#numbers(this.leb() + 1)
    else if (code === 0x1c) this.#numbers(this.leb())
    else if (code === 0x43 || code === 0x44) this.at += code === 0x43 ? 4 : 8
    else {
      if (code > LAST_INSTRUCTION) unsupported(`unknown instruction ${code}`)
      this.#numbers(NUMBERS_AFTER[code] ?? 0)
    }
    return code
  }

  #numbers(count: number): void {
    for (let index = 0; index < count; index += 1) this.leb()
  }
}

/** The sections by id, in order. Custom sections (0) are dropped, because they do not affect execution. */
function sectionsOf(module: Uint8Array): Map<number, Uint8Array> {
  const reader = new Reader(module)
  reader.at = HEADER_BYTES
  const sections = new Map<number, Uint8Array>()
  while (reader.at < module.length) {
    const id = reader.byte()
    const end = reader.leb() + reader.at
    if (id !== 0) sections.set(id, module.subarray(reader.at, end))
    reader.at = end
  }
  return sections
}

/** The number of imported functions, which have the first indexes. This module's glue imports nothing else. */
function importedFunctions(imports: Reader): number {
  const count = imports.leb()
  for (let index = 0; index < count; index += 1) {
    for (const _ of ['module', 'name']) {
      const length = imports.leb()
      imports.at += length
    }
    if (imports.byte() !== 0) unsupported('an import is not a function')
    imports.leb()
  }
  return count
}

function limitedMemory(memories: Reader, pages: number): Uint8Array<ArrayBuffer> {
  if (memories.leb() !== 1 || memories.byte() !== 0) unsupported('the memory already has a maximum')
  return Uint8Array.from([1, 1, ...leb(memories.leb()), ...leb(pages)])
}

/** Appends items to the list of a section. */
function appended(section: Reader, items: readonly number[][]): Uint8Array<ArrayBuffer> {
  const count = section.leb() + items.length
  return Buffer.concat([
    Uint8Array.from(leb(count)),
    section.bytes.subarray(section.at),
    Uint8Array.from(items.flat()),
  ])
}

const sized = (bytes: readonly number[]): number[] => [...leb(bytes.length), ...bytes]

function leb(value: number): number[] {
  return value < 0x80 ? [value] : [(value % 0x80) | 0x80, ...leb(Math.floor(value / 0x80))]
}

function unsupported(fault: string): never {
  throw new TypeError(`unsupported WebAssembly module: ${fault}`)
}
