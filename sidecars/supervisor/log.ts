/** Writes one line per event of any process, as `HH:MM:SS.mmm name     message` or as JSON. */

export type WriteLine = (name: string, message: string) => void

const NAME_WIDTH = 8

export const textLog =
  (write: (line: string) => void): WriteLine =>
  (name, message) =>
    write(`${new Date().toISOString().slice(11, 23)} ${name.padEnd(NAME_WIDTH)}  ${message}\n`)

/** Keeps the fields of a line that a child wrote as JSON. */
export const jsonLog =
  (write: (line: string) => void): WriteLine =>
  (name, message) =>
    write(
      `${JSON.stringify({ time: new Date().toISOString(), level: 'info', name, ...(parseFields(message) ?? { message }) })}\n`,
    )

function parseFields(message: string): object | undefined {
  if (!message.startsWith('{')) return undefined
  try {
    return JSON.parse(message)
  } catch {
    return undefined
  }
}
