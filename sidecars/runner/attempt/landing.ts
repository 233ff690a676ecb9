import assert from 'node:assert'
import { copyFile, link, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { fromJsonString } from '@bufbuild/protobuf'
import {
  type FileVersion,
  type LakeAccess,
  type LandingFile,
  type LandingInput,
  LandingInputSchema,
} from '../../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { traceHeaders } from '../../../proto/trace.ts'
import { type Gateway, openObject, pathIn } from '../../objects/lake-access.ts'
import { accepted, HttpFailure, patiently } from '../../rpc/http.ts'

// The files of landing zones, as they were frozen for an attempt, on this machine.

export interface LandingOptions {
  namespace: string
  /** The zones frozen at the attempt's start. Others are frozen when they are asked for. */
  frozen: readonly LandingInput[]
  access: LakeAccess
  gateway: Gateway
}

/** Where the files of a run's zones are. */
export interface LandingPlace {
  /** Zones become directories in it. */
  directory: string
  /** What their paths begin with, for those who read them. */
  name: string
  /** Where an engine has to work for that; nothing but the files begins there. Null: anywhere. */
  from: string | null
}

/** A file has the same path in every run, so that rows can be told by it. */
export const landingIn = (directory: string): LandingPlace => ({
  directory: join(directory, LANDING),
  name: LANDING,
  from: directory,
})

/** Python and the engine beside it have no directory in common to begin at. */
export function landingOfPython(inputs: string): LandingPlace {
  const directory = join(inputs, LANDING)
  return { directory, name: directory, from: null }
}

const LANDING = 'landing'

/** Brings the files of a zone into a new directory. Answers what they are; null: there is no such zone. */
export async function bringLanding(
  zone: string,
  directory: string,
  options: LandingOptions,
): Promise<LandingFile[] | null> {
  const { frozen, namespace } = options
  const input =
    frozen.find((known) => known.namespace === namespace && known.zone === zone) ??
    (await freeze(zone, options))
  if (input === null) return null
  await mkdir(directory, { recursive: true })
  for (let from = 0; from < input.files.length; from += DOWNLOADS_AT_ONCE)
    await Promise.all(
      input.files
        .slice(from, from + DOWNLOADS_AT_ONCE)
        .map((file) => bring(file, join(directory, localName(file)), options.gateway)),
    )
  return input.files
}

const DOWNLOADS_AT_ONCE = 8

/** The zone's files as of the attempt's start. */
async function freeze(
  zone: string,
  { namespace, access, gateway }: LandingOptions,
): Promise<LandingInput | null> {
  const url = `${access.catalogUrl}/sluice/v1/landing/${pathIn(`${namespace}/${zone}`)}`
  try {
    const text = await patiently(
      async (signal) => {
        const headers = { ...traceHeaders(), authorization: `Bearer ${access.token}` }
        const response = await accepted(await fetch(url, { headers, signal }), `reading landing zone ${zone}`)
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

/** A hard link to the cached copy, or another copy on another disk: the file stays as long as the attempt's directory does. */
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
export function objectOf({ object }: LandingFile): FileVersion {
  assert(object !== undefined, 'a landing file has an object')
  return object
}

const NAME_BYTES_MAX = 255

/** Its own name, so that queries which show it make sense, unless no file here can have it. */
function localName({ id, filename }: Pick<LandingFile, 'id' | 'filename'>): string {
  const isPlain =
    filename !== '' && !/^\.|[/\\\p{Cc}]/u.test(filename) && Buffer.byteLength(filename) <= NAME_BYTES_MAX
  return isPlain ? filename : id
}
