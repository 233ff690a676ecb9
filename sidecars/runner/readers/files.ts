import { closeSync, createReadStream, openSync, type ReadStream, readSync, statSync } from 'node:fs'
import { createGunzip, createZstdDecompress } from 'node:zlib'
import { argument, type ReaderCall } from './calls.ts'
import { landingName } from './csv-fault.ts'
import { refuseCutArray } from './cut-files.ts'
import { refusal } from './reader.ts'
import { hasWholeFrames } from './zstd-frames.ts'

// Looks at files before DuckDB reads them. DuckDB reads a damaged compressed file to its damage, and calls that success.

const HEAD_BYTES = 4_096
const CHUNK_BYTES = 1_048_576
const GZIP = '1f8b'
const ZSTD = '28b52ffd'
/** A digit follows. */
const BZIP2 = '425a68'
/** The first bytes of formats that no reader of text reads. */
const OTHER_FORMATS: readonly [string, string][] = [
  ['504b0304', 'a ZIP archive or a workbook'],
  ['d0cf11e0a1b11ae1', 'an old workbook'],
  // The first block of bzip2 begins with a constant.
  ['314159265359', 'compressed with bzip2'],
  ['fd377a585a00', 'compressed with xz'],
  ['04224d18', 'compressed with LZ4'],
  ['377abcaf271c', 'a 7z archive'],
  ['526172211a07', 'a RAR archive'],
  ['25504446', 'a PDF'],
  ['4f626a01', 'an Avro file'],
  ['4f524301', 'an ORC file'],
  ['4152524f57310000', 'an Arrow file'],
  ['53514c69746520666f726d6174203300', 'an SQLite database'],
]
/** Files that were checked completely, by identity of their content on this machine. */
const checked = new Set<string>()
const CHECKED_MAX = 10_000

type Compression = 'gzip' | 'zstd'

/** Refuses damaged compressed files, and files in another format than the call reads. Throws EngineError. */
export async function checkFiles(call: ReaderCall, files: readonly string[]): Promise<void> {
  for (const file of files) {
    const head = headOf(file)
    const magic = head.toString('hex', 0, 4)
    const actual = magic.startsWith(GZIP) ? 'gzip' : magic === ZSTD ? 'zstd' : null
    const applied = compressionOf(call, file)
    if (call.kind !== 'parquet') {
      refuseOtherFormat(call, file, { head, actual, applied })
      if (applied === 'gzip' || applied === 'zstd') await checkWhole(file, applied)
      else if (call.kind !== 'csv' && argument(call, 'ignore_errors') === undefined)
        refuseCutArray(file, head)
    }
  }
}

/** The compression that the call applies: the author's, or that of the file's name. */
export function compressionOf(call: ReaderCall, file: string): string {
  const option = argument(call, 'compression')?.replaceAll("'", '').toLowerCase()
  if (option !== undefined && option !== 'auto' && option !== 'auto_detect') return option
  return /\.gz$/i.test(file) ? 'gzip' : /\.zst$/i.test(file) ? 'zstd' : 'none'
}

/** The bytes of a file as the call reads them. */
export async function* contentOf(call: ReaderCall, file: string): AsyncGenerator<Buffer> {
  const compression = compressionOf(call, file)
  const source = createReadStream(file, { highWaterMark: CHUNK_BYTES })
  if (compression === 'none') yield* source
  else yield* decompressed(source, compression === 'gzip' ? 'gzip' : 'zstd')
}

async function* decompressed(source: ReadStream, compression: Compression): AsyncGenerator<Buffer> {
  const stream = compression === 'gzip' ? createGunzip() : createZstdDecompress()
  source.on('error', (error) => stream.destroy(error))
  try {
    yield* source.pipe(stream)
  } finally {
    source.destroy()
  }
}

function refuseOtherFormat(
  call: ReaderCall,
  file: string,
  { head, actual, applied }: { head: Buffer; actual: Compression | null; applied: string },
): void {
  const landed = landingName(file)
  if (actual !== null && applied === 'none')
    throw refusal(
      `${landed} is compressed with ${actual}: name the file .${actual === 'gzip' ? 'gz' : 'zst'}, or write compression='${actual}'`,
    )
  if (applied !== 'none' && applied !== actual && (applied === 'gzip' || applied === 'zstd'))
    throw refusal(`${landed} is not compressed with ${applied}: upload the file again, or correct its name`)
  if (head.toString('latin1', 0, 4) === 'PAR1')
    throw refusal(`${landed} is a Parquet file: read the file with read_parquet`)
  const hex = head.toString('hex', 0, 16)
  const begin = hex.startsWith(BZIP2) ? hex.slice(BZIP2.length + 2) : hex
  const other = OTHER_FORMATS.find(([bytes]) => begin.startsWith(bytes))?.[1]
  if (other !== undefined) throw refusal(`${landed} is ${other}: upload its content as CSV, JSON or Parquet`)
  if (argument(call, 'encoding') === undefined && isUtf32(head))
    throw refusal(`${landed} is UTF-32 text: save the file as UTF-8`)
  if (argument(call, 'encoding') === undefined && isUtf16(head))
    throw refusal(
      call.kind === 'csv'
        ? `${landed} is UTF-16 text: save the file as UTF-8, or write encoding='utf-16'`
        : `${landed} is UTF-16 text: save the file as UTF-8`,
    )
}

const isUtf32 = (head: Buffer) => ['fffe0000', '0000feff'].includes(head.toString('hex', 0, 4))

/** UTF-16 has a byte order mark, or a zero byte in every second place of plain text. */
function isUtf16(head: Buffer): boolean {
  const mark = head.toString('hex', 0, 2)
  if (mark === 'fffe' || mark === 'feff') return true
  const zeros = [0, 1].map((odd) => head.filter((byte, at) => at % 2 === odd && byte === 0).length)
  return head.length >= 4 && zeros.some((count) => count > head.length / 4) && Math.min(...zeros) === 0
}

function headOf(path: string): Buffer {
  const file = openSync(path, 'r')
  try {
    const bytes = Buffer.alloc(HEAD_BYTES)
    return bytes.subarray(0, readSync(file, bytes, 0, HEAD_BYTES, 0))
  } finally {
    closeSync(file)
  }
}

/** Decompresses a file to its end, and keeps nothing of the result. */
async function checkWhole(path: string, compression: Compression): Promise<void> {
  const { dev, ino, size, mtimeMs } = statSync(path)
  const identity = `${dev}:${ino}:${size}:${mtimeMs}`
  if (checked.has(identity)) return
  if (compression === 'zstd' && !hasAllFrames(path, size)) throw damaged(path, 'its end is missing')
  try {
    for await (const _ of decompressed(createReadStream(path), compression)) {
      // Only the checks of the format count.
    }
  } catch (error) {
    throw damaged(path, error instanceof Error ? error.message : String(error))
  }
  if (checked.size === CHECKED_MAX) checked.clear()
  checked.add(identity)
}

function damaged(path: string, reason: string): Error {
  const file = landingName(path)
  return refusal(`${file} is cut or damaged (${reason}): upload the file again`)
}

function hasAllFrames(path: string, size: number): boolean {
  const file = openSync(path, 'r')
  try {
    return hasWholeFrames(file, size)
  } finally {
    closeSync(file)
  }
}
