import { notFound } from './errors.ts'

/** How clients name a landing zone. A deleted zone's name can be used again, so a name is no identity: an id is. */
export interface ZoneRef {
  namespace: string
  name: string
  /** Then only the zone with this id is meant: what the caller's right was looked up for. */
  boundTo?: string
}

export const noZone = ({ namespace, name }: ZoneRef) => notFound(`landing zone ${namespace}.${name}`)

/** Where a zone's objects live; ends in '/'. */
export const zonePrefix = ({ namespace, name }: ZoneRef) => `${namespace}/landing/${name}/`
