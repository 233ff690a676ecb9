import { keyIn } from '../../lake/iceberg/format/location.ts'
import { type ManifestReader, makeManifestReader } from '../../lake/iceberg/read/scan.ts'
import type { ObjectStore } from '../objects/port.ts'
import { MissingLakeFile } from './metadata-files.ts'

/** Reads manifests from the object store. A missing file is a broken invariant and throws. */
export const makeLakeReader = (objects: ObjectStore): ManifestReader =>
  makeManifestReader(async (location) => {
    const found = await objects.get(keyIn(location))
    if (found === null) throw new MissingLakeFile(`lake file ${location} is missing`)
    return new Uint8Array(await new Response(found.body).arrayBuffer())
  })
