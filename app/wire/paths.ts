import { type Layer, layerOf } from '../../ground/names.ts'
import { invalid } from '../core/errors.ts'
import { decodePath } from './target.ts'

/** Maximum segments of the path of a file. Bun's router reads a hundred segments of an address. */
const PATH_SEGMENTS = 64

// Paths of the object store as clients write them (specification: Storage, Path validation). The rules hold after every level
// of percent-decoding, because a later component may decode once more.

const NAMESPACE = /^[a-z][a-z0-9-]{2,62}$/
/** Controls, and characters that are not seen: bidirectional controls, zero-width characters, line separators. */
const CONTROL = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u
/** Each decoding shortens the text by at least two characters, so decoding always ends. The limit makes that obvious. */
const DECODING_LEVELS = 16

/** The pipeline whose folder contains a path. */
export interface PipelineFolder {
  namespace: string
  layer: Layer
  name: string
}

/** The path in the rest of a request's address, still percent-encoded. Throws 400 when the path breaks a rule. */
export const pathFromUrl = (encoded: string): string => filePath(decodePath(encoded))

/** Returns a path that names a file, or throws 400. */
export function filePath(path: string, field = 'path'): string {
  checkRules(path, field)
  const segments = path.split('/')
  if (segments.length < 2) throw invalid(field, 'must name a file inside a namespace')
  if (segments.some((segment) => segment === '' || segment === '.'))
    throw invalid(field, 'must not have empty or relative segments')
  if (segments.length > PATH_SEGMENTS) throw invalid(field, `must have at most ${PATH_SEGMENTS} segments`)
  return path
}

/** Returns the prefix of a listing, or throws 400. The name of a namespace alone means that namespace and no other. */
export function listPrefix(prefix: string): string {
  checkRules(prefix, 'prefix')
  const segments = prefix.split('/')
  if (segments.slice(0, -1).some((segment) => segment === '' || segment === '.'))
    throw invalid('prefix', 'must not have empty or relative segments')
  return segments.length === 1 ? `${prefix}/` : prefix
}

/**
 * The last segment of a file name from a client, with the separator of any system. A form part with an empty file name arrives
 * without a name.
 */
export const baseName = (name = '') => name.slice(Math.max(name.lastIndexOf('/'), name.lastIndexOf('\\')) + 1)

export const isControlFree = (text: string) => !CONTROL.test(text)

/** Whether a name contains neither separators nor control characters, at every level of percent-decoding. */
export function isPlainName(name: string): boolean {
  let text = name
  for (let level = 0; level < DECODING_LEVELS; level++) {
    if (/[/\\]/.test(text) || !isControlFree(text)) return false
    const decoded = decodeAscii(text)
    if (decoded === text) return true
    text = decoded
  }
  return false
}

const PIPELINE = /^([^/]+)\/pipelines\/([^/]+)\/([^/]+)\/./

/** The pipeline whose folder contains a path, whether that pipeline exists or not. */
export function pipelineFolderOf(path: string): PipelineFolder | null {
  const [, namespace, layerText, name] = PIPELINE.exec(path) ?? []
  const layer = layerOf(layerText)
  return namespace === undefined || name === undefined || layer === undefined
    ? null
    : { namespace, layer, name }
}

const ZONE = /^([^/]+)\/landing\/([^/]+)\/./

/** The landing zone whose folder contains a path, whether that zone exists or not. */
export function zoneFolderOf(path: string): { namespace: string; name: string } | null {
  const [, namespace, name] = ZONE.exec(path) ?? []
  return namespace === undefined || name === undefined ? null : { namespace, name }
}

function checkRules(path: string, field: string) {
  let text = path
  for (let level = 0; level < DECODING_LEVELS; level++) {
    checkLevel(text, field)
    const decoded = decodeAscii(text)
    if (decoded === text) return
    text = decoded
  }
  throw invalid(field, 'is percent-encoded too many times')
}

function checkLevel(path: string, field: string) {
  if (path === '') throw invalid(field, 'must not be empty')
  if (path.startsWith('/')) throw invalid(field, 'must be relative, without a leading /')
  if (path.includes('..')) throw invalid(field, "must not contain '..'")
  if (path.includes('\\')) throw invalid(field, 'must not contain a backslash')
  if (!isControlFree(path))
    throw invalid(field, 'must not contain null bytes, other control characters or invisible characters')
  const [namespace = ''] = path.split('/', 1)
  if (!NAMESPACE.test(namespace)) throw invalid(field, 'must start with a valid namespace')
}

/** Decodes ASCII, which could spell a dot, a separator or a control character. Other text stays as it is, malformed or not. */
const decodeAscii = (text: string) =>
  text.replace(/%([0-7][0-9a-f])/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
