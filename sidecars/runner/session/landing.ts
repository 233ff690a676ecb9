import assert from 'node:assert'
import { copyFile, link, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { fromJsonString } from '@bufbuild/protobuf'
import { traceHeaders } from '../../../ground/telemetry/trace.ts'
import { AuthorError } from '../../../lake/pipeline/author-error.ts'
import { matchesGlob } from '../../../lake/pipeline/glob.ts'
import { partsOfSelection } from '../../../lake/pipeline/names.ts'
import {
  type FileVersion,
  type LakeAccess,
  type LandingFile,
  type LandingInput,
  LandingInputSchema,
} from '../../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { type Gateway, openObject, pathIn } from '../../objects/lake-access.ts'
import { accepted, HttpFailure, patiently } from '../../rpc/http.ts'

// Makes the files of landing zones local, as they were frozen for an attempt.

export interface LandingOptions {
  namespace: string
  /** The zones frozen at the attempt's start. Other zones are frozen when a template names them. */
  frozen: readonly LandingInput[]
  access: LakeAccess
  gateway: Gateway
}

/** The location of a run's landing zones on this machine. */
export interface LandingDirectory {
  /** Each zone becomes a directory in it. */
  directory: string
  /** The beginning of every zone's path, as code of users sees it. */
  name: string
  /** The working directory that an engine needs to resolve `name`; nothing else is resolved from it. Null: any directory. */
  from: string | null
}

/** A file has the same path in every run, so that rows can be identified by their file's path. */
export const landingIn = (directory: string): LandingDirectory => ({
  directory: join(directory, LANDING),
  name: LANDING,
  from: directory,
})

/** Python and its engine have no working directory in common, so the path is absolute. */
export function landingOfPython(inputs: string): LandingDirectory {
  const directory = join(inputs, LANDING)
  return { directory, name: directory, from: null }
}

const LANDING = 'landing'

/** Fetches the selected files into a new directory and returns their descriptions. Null: the zone does not exist. */
export async function bringLanding(
  selection: string,
  directory: string,
  options: LandingOptions,
): Promise<LandingFile[] | null> {
  const files = await findLanding(selection, options)
  if (files === null) return null
  await mkdir(directory, { recursive: true })
  for (let from = 0; from < files.length; from += DOWNLOADS_AT_ONCE)
    await Promise.all(
      files
        .slice(from, from + DOWNLOADS_AT_ONCE)
        .map((file) => bring(file, join(directory, localName(file)), options.gateway)),
    )
  return files
}

/** The selected files, for an engine that reads them itself. Null: the zone does not exist. */
export async function findLanding(selection: string, options: LandingOptions): Promise<LandingFile[] | null> {
  const { frozen, namespace } = options
  const { zone, pattern } = partsOfSelection(selection)
  const known = frozen.find((input) => input.namespace === namespace && input.zone === zone)
  const files = (known ?? (await freeze({ zone, pattern }, options)))?.files ?? null
  if (files === null || pattern === null) return files
  return files.filter(({ filename }) => matchesGlob(pattern, filename.replace(UPLOAD_TIME, '')))
}

/** The beginning of a stored name, before the original name. Samples have none. */
const UPLOAD_TIME = /^\d{8}_\d{6}_/

const DOWNLOADS_AT_ONCE = 8

/** Freezes the zone's files as of the attempt's start. Null: the zone does not exist. */
async function freeze(
  { zone, pattern }: { zone: string; pattern: string | null },
  { namespace, access, gateway }: LandingOptions,
): Promise<LandingInput | null> {
  const url = `${access.catalogUrl}/sluice/v1/landing/${pathIn(`${namespace}/${zone}`)}${pattern === null ? '' : `?${new URLSearchParams({ pattern })}`}`
  try {
    const text = await patiently(
      async (signal) => {
        const headers = { ...traceHeaders(), authorization: `Bearer ${access.token}` }
        const answer = await fetch(url, { headers, signal })
        if (answer.status === 409) throw new AuthorError(await reasonIn(answer))
        const response = await accepted(answer, `reading landing zone ${zone}`)
        return response.text()
      },
      { signal: gateway.signal },
    )
    return fromJsonString(LandingInputSchema, text)
  } catch (error) {
    if (error instanceof HttpFailure && error.status === 404) return null
    throw error
  }
}

/** The catalog refuses a zone that another pipeline archives. */
async function reasonIn(answer: Response): Promise<string> {
  const { error } = (await answer.json()) as { error: { message: string } }
  return error.message
}

/**
 * Makes a hard link to the cached copy, or a copy when the cache is on another disk. So the file stays as long as the attempt's
 * directory.
 */
async function bring(file: LandingFile, path: string, gateway: Gateway): Promise<void> {
  const object = objectOf(file)
  const { path: cached, release } = await openObject(
    gateway,
    object.path,
    object.versionId,
    Number(object.sizeBytes),
  )
  try {
    await link(cached, path).catch((error: unknown) => {
      if (!(error instanceof Error && 'code' in error && error.code === 'EXDEV')) throw error
      return copyFile(cached, path)
    })
  } finally {
    release()
  }
}

/** The object that has the content of a landing file. */
export function objectOf({ id, object }: LandingFile): FileVersion {
  assert(object !== undefined, `landing file ${id} has no object`)
  return object
}

const NAME_BYTES_MAX = 255

/** Uses the uploaded name, so that queries that show it make sense. A name that is invalid here is replaced by the id. */
export function localName({ id, filename }: Pick<LandingFile, 'id' | 'filename'>): string {
  const isPlain =
    filename !== '' && !/^\.|[/\\\p{Cc}]/u.test(filename) && Buffer.byteLength(filename) <= NAME_BYTES_MAX
  return isPlain ? filename : id
}
