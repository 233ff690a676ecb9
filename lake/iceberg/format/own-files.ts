// The files that a snapshot of a table may name. Commits of engines and all readers ask this one predicate.
import { keyIn, placeIn } from './location.ts'
import { formerDirectories, type TableMetadata } from './metadata.ts'

/** The folders that hold data files, delete files, manifests and manifest lists. */
const FOLDERS = ['data', 'metadata']

export type IsOwn = (location: string) => boolean

/**
 * Whether a location is in `data/` or `metadata/` of the table's directory, or of a directory that the table had under another
 * name. The root of the lake does not count. A reader that opens the file also checks its key.
 */
export function ownFiles(metadata: TableMetadata): IsOwn {
  const folders = [keyIn(metadata.location), ...formerDirectories(metadata)].flatMap((directory) =>
    FOLDERS.map((folder) => `/${directory}/${folder}/`),
  )
  return (location) => {
    const place = placeIn(location)
    return folders.some((folder) => place.startsWith(folder))
  }
}
