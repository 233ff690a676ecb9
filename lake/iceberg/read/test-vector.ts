// Writes deletion vectors for tests, with each kind of container of the roaring format.
import { crc32 } from 'node:zlib'

type Container = 'array' | 'bitmap' | 'run'

/** A blob that deletes these rows. `kindOf` chooses the form of each container; by default, its size does. */
export function deletionVector(
  rows: Iterable<number>,
  kindOf: (values: number) => Container = (values) => (values > 4_096 ? 'bitmap' : 'array'),
): Uint8Array<ArrayBuffer> {
  const sorted = [...new Set(rows)].toSorted((a, b) => a - b)
  const bitmaps = Map.groupBy(sorted, (row) => Math.floor(row / 2 ** 32))
  const body = new Bytes()
  body.u64(bitmaps.size)
  for (const [key, values] of bitmaps) {
    body.u32(key)
    writeBitmap(
      body,
      values.map((value) => value % 2 ** 32),
      kindOf,
    )
  }
  const magic = Uint8Array.of(0xd1, 0xd3, 0x39, 0x64)
  const content = new Uint8Array([...magic, ...body.bytes])
  const frame = new DataView(new ArrayBuffer(content.length + 8))
  frame.setUint32(0, content.length)
  new Uint8Array(frame.buffer).set(content, 4)
  frame.setUint32(content.length + 4, crc32(content))
  return new Uint8Array(frame.buffer)
}

class Bytes {
  readonly bytes: number[] = []
  u16 = (value: number) => this.bytes.push(value & 0xff, (value >>> 8) & 0xff)
  u32 = (value: number) => {
    this.u16(value & 0xffff)
    this.u16(value >>> 16)
  }
  u64 = (value: number) => {
    this.u32(value % 2 ** 32)
    this.u32(Math.floor(value / 2 ** 32))
  }
}

function writeBitmap(out: Bytes, values: readonly number[], kindOf: (values: number) => Container) {
  const containers = Array.from(
    Map.groupBy(values, (value) => Math.floor(value / 65_536)),
    ([key, own]) => ({ key, own: own.map((value) => value % 65_536), kind: kindOf(own.length) }),
  )
  const hasRuns = containers.some(({ kind }) => kind === 'run')
  if (hasRuns) {
    out.u16(12_347)
    out.u16(containers.length - 1)
    for (let i = 0; i < containers.length; i += 8)
      out.bytes.push(
        containers
          .slice(i, i + 8)
          .reduce((flags, { kind }, bit) => flags | (kind === 'run' ? 1 << bit : 0), 0),
      )
  } else {
    out.u32(12_346)
    out.u32(containers.length)
  }
  for (const { key, own } of containers) {
    out.u16(key)
    out.u16(own.length - 1)
  }
  const contents = containers.map(({ own, kind }) => containerBytes(own, kind))
  if (!hasRuns || containers.length >= 4) {
    let offset = out.bytes.length - 12 + containers.length * 4
    for (const content of contents) {
      out.u32(offset)
      offset += content.length
    }
  }
  for (const content of contents) out.bytes.push(...content)
}

function containerBytes(values: readonly number[], kind: Container): number[] {
  const out = new Bytes()
  if (kind === 'array') for (const value of values) out.u16(value)
  if (kind === 'bitmap') {
    const bits = new Uint8Array(8_192)
    for (const value of values) bits[value >> 3] = (bits[value >> 3] ?? 0) | (1 << (value & 7))
    out.bytes.push(...bits)
  }
  if (kind === 'run') {
    const runs: { from: number; to: number }[] = []
    for (const value of values) {
      const last = runs.at(-1)
      if (last?.to === value - 1) last.to = value
      else runs.push({ from: value, to: value })
    }
    out.u16(runs.length)
    for (const { from, to } of runs) {
      out.u16(from)
      out.u16(to - from)
    }
  }
  return out.bytes
}
