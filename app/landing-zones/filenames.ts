import { invalid } from '../core/errors.ts'
import { baseName, filePath, isControlFree, isPlainName } from '../core/paths.ts'

/** Leaves room in a key of 1,024 bytes for the zone's prefix, the time and the folder of archived files. */
const NAME_BYTES = 512

/** The base name of an uploaded file, or 400: any Unicode but control characters, at no level of percent-decoding more than a name. */
export function originalName(name: string): string {
  const base = baseName(name)
  if (base === '') throw invalid('file', 'needs a file name')
  if (!isControlFree(base) || !base.isWellFormed())
    throw invalid('file', 'its name must not contain control characters')
  if (!isPlainName(base)) throw invalid('file', 'its name must not be an encoded path')
  if (Buffer.byteLength(base) > NAME_BYTES)
    throw invalid('file', `its name is longer than ${NAME_BYTES} bytes`)
  return base
}

/** `YYYYMMDD_HHMMSS_name`, in UTC. */
export const storedName = (original: string, at: Date) =>
  `${at.toISOString().slice(0, 19).replaceAll(/[-:]/g, '').replace('T', '_')}_${original}`

/** The names a file can get: the present second first, then the ones that follow. */
export function* candidateNames(original: string, from: Date, seconds: number): Generator<string> {
  for (let second = 0; second < seconds; second++)
    yield storedName(original, new Date(from.getTime() + second * 1000))
}

/** The key of a zone's sample, or 400. `folder` ends in '/'. */
export const sampleKey = (folder: string, filename: string, field: string): string => {
  if (filename.includes('/')) throw invalid(field, 'must not contain a /')
  return filePath(folder + filename, field)
}
