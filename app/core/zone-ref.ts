import { boundId } from './bound.ts'
import { notFound } from './errors.ts'

/** A landing zone as clients name it. A name can be reused after a deletion, so only the id identifies a zone. */
export interface ZoneRef {
  namespace: string
  name: string
  /** If set, only the zone with this id matches: the caller's right was checked for this id. */
  boundTo?: string
}

export const refOf = (path: { ns: string; name: string }): ZoneRef => {
  const ref = { namespace: path.ns, name: path.name }
  const boundTo = boundId(path)
  return boundTo === undefined ? ref : { ...ref, boundTo }
}

export const noZone = ({ namespace, name }: ZoneRef) => notFound(`landing zone ${namespace}.${name}`)

/** The folder of a zone's objects; ends in '/'. */
export const zonePrefix = ({ namespace, name }: ZoneRef) => `${namespace}/landing/${name}/`
