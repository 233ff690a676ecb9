import type { IconName } from '../design/icons.tsx'

// The places of the console, in the order of the navigation. The key after `g` goes there.

interface Place {
  path: string
  label: string
  icon: IconName
  /** Pressed after `g`. */
  key: string
  group: 'work' | 'data' | 'operate'
}

export const PLACES = [
  { path: '/', label: 'Overview', icon: 'overview', key: 'o', group: 'work' },
  { path: '/pipelines', label: 'Pipelines', icon: 'pipelines', key: 'p', group: 'work' },
  { path: '/runs', label: 'Runs', icon: 'runs', key: 'r', group: 'work' },
  { path: '/inspector', label: 'Inspector', icon: 'inspector', key: 'i', group: 'work' },
  { path: '/lineage', label: 'Lineage', icon: 'lineage', key: 'l', group: 'work' },
  { path: '/query', label: 'Query', icon: 'query', key: 'q', group: 'data' },
  { path: '/lake', label: 'Lake', icon: 'lake', key: 't', group: 'data' },
  { path: '/branches', label: 'Branches', icon: 'branches', key: 'b', group: 'data' },
  { path: '/landing-zones', label: 'Landing zones', icon: 'landing', key: 'z', group: 'data' },
  { path: '/system', label: 'System', icon: 'system', key: 's', group: 'operate' },
  { path: '/retention', label: 'Retention', icon: 'retention', key: 'e', group: 'operate' },
  { path: '/audit', label: 'Audit', icon: 'audit', key: 'a', group: 'operate' },
  { path: '/sharing', label: 'Sharing', icon: 'sharing', key: 'h', group: 'operate' },
  { path: '/settings', label: 'Settings', icon: 'settings', key: ',', group: 'operate' },
] as const satisfies readonly Place[]

export const GROUPS = { work: 'Work', data: 'Data', operate: 'Operate' } as const
