/**
 * A mistake in a pipeline that its author can correct. `text` says what is wrong, `where` names the place in the author's
 * files: `pipeline.sql line 3`. The message is both.
 */
export class AuthorError extends Error {
  readonly text: string
  /** Undefined: not known yet. '': the mistake has no place in a file. */
  readonly where: string | undefined

  constructor(text: string, { where, ...options }: ErrorOptions & { where?: string } = {}) {
    super(where ? `${where}: ${text}` : text, options)
    this.text = text
    this.where = where
  }
}
