// The interface between the catalog, which knows the rights of tokens, and the S3 endpoint, where engines use them.

/** Signed claims of an engine's work. Only the catalog reads more of them. */
export interface Work {
  readonly kind: string
  /** Milliseconds since 1970. */
  readonly expiresAt: number
}

/** A stored object. Without `version`: its newest one. */
export interface WorkObject {
  key: string
  version?: string
}

/** The files that a token reaches. All functions return null for a key that it does not reach. */
export interface WorkFiles<Listed> {
  /** The object to read. */
  object(work: Work, key: string): Promise<WorkObject | null>
  /** The objects of a landing zone whose keys begin with the prefix, in the order of their keys. Lake files are not listed. */
  list(work: Work, prefix: string): Promise<Listed[] | null>
  /** The directory of the table that takes the file. */
  directory(work: Work, key: string): Promise<string | null>
}
