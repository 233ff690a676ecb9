// Credentials for files: of one table, in the answer that describes the table, or of everything that a token reaches. Source: Iceberg REST catalog OpenAPI,
// LoadTableResult and LoadCredentialsResponse.
import type { Sql } from '../../drizzle/client.ts'
import type { TableName } from '../../ground/names.ts'
import { keyIn } from '../../lake/iceberg/format/location.ts'
import { formerDirectories } from '../../lake/iceberg/format/metadata.ts'
import { exchangeOf } from '../http/exchange.ts'
import type { CredentialIssuer, S3Credentials, TableGrant } from '../s3/credentials.ts'
import { branchEnded } from '../s3/errors.ts'
import { isTableDirectory } from '../versions/lake-keys.ts'
import { openBranchNamed } from '../versions/store/user-branches.ts'
import type { Claims } from './claims.ts'
import type { LoadedTable } from './service.ts'
import type { Session } from './session.ts'

/** Directories of one table that credentials reach. */
const DIRECTORIES_MAX = 16

/** With this header a client asks for credentials. It lists the ways that it knows. */
export const DELEGATION = 'X-Iceberg-Access-Delegation'
export const VENDED = 'vended-credentials'

interface VendingDeps {
  credentials: CredentialIssuer
  /** The start of every location. */
  lakeRoot: string
  region: string
  /** Whether users may commit to main. */
  writesMain: boolean
  /** The address of the S3 endpoint; null: below the address that the client itself used. */
  shownUrl: string | null
}

export type Vending = ReturnType<typeof makeVending>

/** Config and credentials of one table. */
export interface Vended {
  config: Record<string, string>
  'storage-credentials': { prefix: string; config: Record<string, string> }[]
}

export function makeVending({ credentials, lakeRoot, region, writesMain, shownUrl }: VendingDeps) {
  const configOf = (request: Request, issued: S3Credentials) => ({
    's3.endpoint': `${shownUrl ?? new URL(request.url).origin}/s3`,
    's3.path-style-access': 'true',
    's3.region': region,
    'client.region': region,
    's3.access-key-id': issued.accessKeyId,
    's3.secret-access-key': issued.secretAccessKey,
    's3.session-token': issued.sessionToken,
    's3.session-token-expires-at-ms': String(issued.expiresAt),
  })

  return {
    /** The config of an engine that works with a token. Its credentials reach the files that the token reaches. */
    issueForWork: (request: Request, work: Claims): Record<string, string> => ({
      uri: `${shownUrl ?? new URL(request.url).origin}/iceberg`,
      ...configOf(request, credentials.issueForWork(work)),
    }),

    /** Whether the client asks for credentials. */
    isWanted: ({ headers }: Request): boolean =>
      (headers.get(DELEGATION) ?? '').split(',').some((way) => way.trim() === VENDED),

    /**
     * Issues credentials that read the files of this state of a table. On a writable warehouse they also add files to its directory. The S3
     * endpoint checks the write permission with each file.
     */
    issue(request: Request, session: Session, table: TableName, loaded: LoadedTable): Vended {
      const { identity } = exchangeOf(request)
      if (identity === null) throw new Error('credentials are issued to authenticated callers only')
      const { kind, userId, name, roles } = identity
      const directories = directoriesOf(table, loaded)
      const issued = credentials.issue({
        prefixes: directories.map((directory) => `${directory}/`),
        write:
          session.view.branch !== null || (writesMain && session.isMain)
            ? writableDirectory(table, loaded)
            : null,
        table,
        view: session.view,
        ...(session.openedAt && { opened: session.openedAt.getTime() }),
        principal: { kind, userId, name, roles },
      })
      const config = configOf(request, issued)
      return {
        config,
        'storage-credentials': directories.map((directory) => ({
          prefix: `${lakeRoot}${directory}`,
          config,
        })),
      }
    },
  }
}

/** Credentials for a table of a branch end with the branch. Throws AccessDenied. */
export const makeMayUse =
  (sql: Sql) =>
  async ({ view: { branch }, opened }: TableGrant): Promise<void> => {
    if (branch === null) return
    const openedAt = (await openBranchNamed(sql, branch))?.createdAt.getTime()
    // A replica of an earlier version issues credentials without the time.
    if (openedAt === undefined || (opened ?? openedAt) !== openedAt) throw branchEnded(branch)
  }

/** The key of the table's directory, with a slash at its end; null when it is the directory of another table. */
function writableDirectory(table: TableName, { metadata }: LoadedTable): string | null {
  const directory = keyIn(metadata.table.location)
  return isTableDirectory(table, directory) ? `${directory}/` : null
}

/** The directories of a table's files. A table that was given another location or name has older files in the earlier ones. */
function directoriesOf(table: TableName, { location, metadata }: LoadedTable): string[] {
  const { location: root, snapshots } = metadata.table
  const files = [root, location, ...snapshots.map((snapshot) => snapshot['manifest-list']).reverse()]
  const directories = new Set<string>(formerDirectories(metadata.table))
  for (const file of files) {
    const directory = file === undefined ? '' : keyIn(file).split('/').slice(0, 4).join('/')
    if (isTableDirectory(table, directory)) directories.add(directory)
    if (directories.size === DIRECTORIES_MAX) break
  }
  return [...directories]
}
