import type { FileSink } from 'bun'

/**
 * Writes to the standard input of a process that may be gone or may not read. After a failed write, the owner learns from the
 * process itself that it has ended. A failed write never becomes an unhandled rejection, which would end this process.
 */
export class PipeWriter {
  readonly #sink: FileSink
  readonly #queuedBytesMax: number
  readonly #onFull: () => void
  #queuedBytes = 0

  /** Calls `onFull` instead of a write that would queue more than `queuedBytesMax` in this process. */
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

  /** Resolves when the pipe has accepted the text or has failed. */
  async #flushed(text: string): Promise<void> {
    try {
      // Both calls may fail, each at once or later.
      await Promise.all([this.#sink.write(text), this.#sink.flush()])
    } catch {
      // EPIPE: the reader is gone.
    }
  }
}
