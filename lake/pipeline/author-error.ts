/**
 * A mistake in a pipeline that its author can correct. `text` describes the mistake. `where` names the place in the author's
 * files: `pipeline.sql line 3`. The message contains both.
 */
export class AuthorError extends Error {
  readonly text: string
  /** Undefined: not known yet. Empty: the mistake has no place in a file. */
  readonly where: string | undefined

  constructor(text: string, { where, ...options }: ErrorOptions & { where?: string } = {}) {
    super(where ? `${where}: ${text}` : text, options)
    this.text = text
    this.where = where
  }
}
