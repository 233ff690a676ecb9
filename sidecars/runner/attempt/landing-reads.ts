import { existsSync } from 'node:fs'
import { AuthorError } from '../../../lake/pipeline/author-error.ts'
import { Unavailable } from '../../sandbox/kernel.ts'
import { localName } from '../session/landing.ts'
import { OpenedFiles, ReportsLost } from './opened-files.ts'
import type { RenderedAttempt } from './render.ts'

// The landing files that an attempt reads. A file counts as read when the engine or the interpreter opens it, so neither filters
// of a path nor libraries of Python matter.

/** Observes the landing files of an attempt from now on. */
export class LandingReads {
  readonly #attempt: RenderedAttempt
  readonly #selections = new Set<string>()
  /** Undefined: nothing is observed yet. Null: this machine does not report opened files. */
  #opened: OpenedFiles | null | undefined

  constructor(attempt: RenderedAttempt) {
    this.#attempt = attempt
    const { inputs } = attempt
    for (const selection of inputs.landings())
      if (existsSync(inputs.landingDirectory(selection))) this.add(selection)
  }

  /** Observes the files of one more selection. */
  add(selection: string): void {
    const { context, inputs } = this.#attempt
    this.#selections.add(selection)
    try {
      if (this.#opened === undefined) this.#opened = new OpenedFiles()
      this.#opened?.watch(inputs.landingDirectory(selection))
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error
      this.close()
      this.#opened = null
      context.log.write(
        'warn',
        `all files of the landing zones count as read, because this machine does not report opened files: ${error.message}`,
      )
    }
  }

  /** The ids of the files that were opened. Throws AuthorError. */
  ids(): string[] {
    const { inputs } = this.#attempt
    const ids = [...this.#selections].flatMap((selection) => {
      const names = this.#namesIn(inputs.landingDirectory(selection))
      return inputs
        .landing(selection)
        .filter((file) => names === null || names.has(localName(file)))
        .map(({ id }) => id)
    })
    return [...new Set(ids)]
  }

  close(): void {
    this.#opened?.close()
  }

  /** Null: every file counts. */
  #namesIn(directory: string): ReadonlySet<string> | null {
    try {
      return this.#opened?.in(directory) ?? null
    } catch (error) {
      if (!(error instanceof ReportsLost)) throw error
      throw new AuthorError(
        'the system dropped reports about opened landing files, so the run cannot know which files to archive: run it again, or raise fs.inotify.max_queued_events',
        { where: '' },
      )
    }
  }
}
