// Parses the service's JSON of an Arrow stream into JavaScript values, for tests.
import { arrowToJson, type JsonOptions } from './arrow-json.ts'

export type JsonValue = null | boolean | number | string | JsonValue[] | JsonObject
export type JsonObject = { [key: string]: JsonValue }

/** The text of the rows, without the brackets around them. */
export async function textOf(ipc: Uint8Array, options: Partial<JsonOptions> = {}) {
  const { columns, chunks } = await arrowToJson(ipc, { shape: 'objects', rows: 200_000, ...options })
  const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.concat(chunks))
  return { columns, text }
}

/** Rows as objects keyed by column name. */
export async function objectsOf(ipc: Uint8Array, rows = 200_000) {
  const { columns, text } = await textOf(ipc, { rows })
  return { columns, rows: JSON.parse(`[${text}]`) as JsonObject[] }
}

/** Rows as arrays in the order of the columns. */
export async function arraysOf(ipc: Uint8Array, rows = 200_000) {
  const { columns, text } = await textOf(ipc, { rows, shape: 'arrays' })
  return { columns, rows: JSON.parse(`[${text}]`) as JsonValue[][] }
}
