// Reads values from an Avro record that another engine may have written.

import type { AvroRecord } from './avro.ts'
import { BadAvro } from './avro-schema.ts'

const isObject = (value: unknown): value is AvroRecord => typeof value === 'object' && value !== null

export function nested(record: AvroRecord, name: string): AvroRecord {
  const value = record[name]
  if (!isObject(value)) throw new BadAvro(`Avro record field ${name} is missing or has a wrong type`)
  return value
}

export function list(record: AvroRecord, name: string): AvroRecord[] {
  const value = record[name]
  return Array.isArray(value) ? value.filter(isObject) : []
}

export function integers(record: AvroRecord, name: string): number[] | undefined {
  const value = record[name]
  return Array.isArray(value) ? value.map(Number) : undefined
}

export function text(record: AvroRecord, name: string): string {
  const value = record[name]
  if (typeof value !== 'string') throw new BadAvro(`Avro record field ${name} is missing or has a wrong type`)
  return value
}

export function optionalText(record: AvroRecord, name: string): string | undefined {
  const value = record[name]
  return typeof value === 'string' ? value : undefined
}

export function optionalInteger(record: AvroRecord, name: string): number | undefined {
  const value = record[name]
  return typeof value === 'number' ? value : undefined
}

export function integer(record: AvroRecord, name: string): number {
  const value = optionalInteger(record, name)
  if (value === undefined) throw new BadAvro(`Avro record field ${name} is missing or has a wrong type`)
  return value
}

export function optionalId(record: AvroRecord, name: string): bigint | undefined {
  const value = record[name]
  return typeof value === 'bigint' ? value : undefined
}
