// Names of warehouses, which are views of the catalog. `sluice` is main. `sluice@<name>` is a branch, a tag, or a commit of main.
import { noSuchWarehouse } from './errors.ts'

const MAIN_WAREHOUSE = 'sluice'
const NAMED = /^sluice[@.]([a-z0-9][a-z0-9-]{0,127})$/

/** The name in a warehouse; null for main. Accepts the prefix of the warehouse as well. @throws CatalogError */
export function nameIn(warehouse: string): string | null {
  if (warehouse === MAIN_WAREHOUSE) return null
  const name = NAMED.exec(warehouse)?.[1]
  if (name === undefined) throw noSuchWarehouse(warehouse)
  return name === 'main' ? null : name
}

export const warehouseOf = (name: string | null): string =>
  name === null ? MAIN_WAREHOUSE : `${MAIN_WAREHOUSE}@${name}`

/** The prefix of a warehouse's routes. Clients differ in how they encode other characters than `[A-Za-z0-9._-]`. */
export const prefixOf = (name: string | null): string =>
  name === null ? MAIN_WAREHOUSE : `${MAIN_WAREHOUSE}.${name}`
