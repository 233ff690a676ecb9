import type { InstanceFilter, MachineName } from '../../api/inspector.ts'

/** The filters of the latest list of each machine: the way back from an instance leads to the same list. */
export const lastLists = new Map<MachineName, InstanceFilter>()
