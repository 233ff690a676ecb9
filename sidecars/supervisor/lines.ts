/** Calls `onLine` for every line of a byte stream, also for an unfinished last line. Resolves at the end of the stream. */
export async function eachLine(stream: ReadableStream<Uint8Array>, onLine: (line: string) => void) {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const chunk of stream) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) onLine(line)
    if (rest.length > LINE_CHARS_LIMIT) {
      onLine(rest)
      rest = ''
    }
  }
  if (rest !== '') onLine(rest)
}

/** The maximum length of a line. A child that writes no line ends must not fill the supervisor's memory. */
const LINE_CHARS_LIMIT = 1024 * 1024
