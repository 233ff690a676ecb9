import type { FileSink } from 'bun'

/**
 * Writes to the standard input of a process that may be gone, or may not read. A failed write is the end of the process,
 * which its owner learns from the process itself: it never becomes an unhandled rejection, which would end this process.
 */
export class PipeWriter {
  readonly #sink: FileSink
  readonly #queuedBytesMax: number
  readonly #onFull: () => void
  #queuedBytes = 0

  /** `onFull` is called instead of a write that would make more than `queuedBytesMax` wait in this process. */
  constructor(sink: FileSink, queuedBytesMax: number, onFull: () => void) {
    this.#sink = sink
    this.#queuedBytesMax = queuedBytesMax
    this.#onFull = onFull
  }

  write(text: string): void {
    const bytes = Buffer.byteLength(text)
    if (this.#queuedBytes + bytes > this.#queuedBytesMax) {
      this.#onFull()
      return
    }
    this.#queuedBytes += bytes
    void this.#flushed(text).then(() => {
      this.#queuedBytes -= bytes
    })
  }

  /** Resolves when the pipe has taken the text, or never will. */
  async #flushed(text: string): Promise<void> {
    try {
      // Both may fail, now or later, each in its own way.
      await Promise.all([this.#sink.write(text), this.#sink.flush()])
    } catch {
      // EPIPE: nobody reads any more.
    }
  }
}
