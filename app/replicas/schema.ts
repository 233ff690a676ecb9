import { Type as t } from '@sinclair/typebox'
import { Instant } from '../core/names.ts'

const Replica = t.Object(
  {
    name: t.String({ description: 'Name of the API process' }),
    alive: t.Boolean({ description: 'Whether the replica has sent a heartbeat in time' }),
    alive_until: Instant,
    leads: t.Array(t.String({ examples: ['scheduler'] }), {
      description: 'Roles that only one replica has at a time',
    }),
    attempts: t.Integer({ description: 'Open attempts of runs that the replica follows' }),
  },
  { title: 'Replica' },
)
const Runner = t.Object(
  {
    address: t.String({ examples: ['http://runner-1:7000'] }),
    attempts: t.Integer({ description: 'Open attempts of runs on the runner' }),
  },
  { title: 'RunnerState' },
)
export const ReplicaList = t.Object(
  {
    replicas: t.Array(Replica, { description: 'Replicas of the last hour, living ones first' }),
    runners: t.Array(Runner, { description: 'Runners of the configuration, and runners with open attempts' }),
  },
  { title: 'ReplicaList' },
)
export type ReplicaList = typeof ReplicaList.static
