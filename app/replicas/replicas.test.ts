import { expect, test } from 'bun:test'
import { useDatabase } from '../../tools/service/database.ts'
import { newId } from '../core/ids.ts'
import { makeReplicaService } from './service.ts'

const opened = useDatabase({ rawConnections: 2 })

test('replicas show their roles and runs, and runners their open attempts', async () => {
  const { sql } = opened
  const [first, second] = [newId(), newId()]
  await sql`
    insert into replica (name, alive_until) values (${`${first}:a`}, clock_timestamp() + interval '1 minute'),
      (${`${second}:b`}, clock_timestamp() - interval '1 minute')`
  await sql`
    insert into leader (role, holder, backend_pid, epoch, until)
    values ('scheduler', ${first}, 1, 1, clock_timestamp() + interval '1 minute'),
      ('reaper', ${second}, 1, 1, clock_timestamp() - interval '1 minute')`
  await sql`
    insert into run (id, pipeline_id, namespace, layer, pipeline, pipeline_type, trigger, pins, landing_zones, snapshot,
      machine_version, status, phase, waiting, follower)
    values (${newId()}, ${newId()}, 'default', 'gold', 'a', 'sql', 'manual', '{}', '[]', '{}', 1, 'running', 'executing',
      false, ${`${first}:a`})`
  await sql`
    insert into run_attempt (run_id, attempt, pipeline_id, branch, base_commit, landing_watermark, runner_url)
    values (${newId()}, 1, ${newId()}, 'run-1', 0, 0, 'http://busy')`
  const { replicas, runners } = await makeReplicaService({ sql, runnerUrls: ['http://idle'] }).list()
  expect(replicas).toEqual([
    { name: `${first}:a`, alive: true, alive_until: expect.any(String), leads: ['scheduler'], attempts: 1 },
    { name: `${second}:b`, alive: false, alive_until: expect.any(String), leads: [], attempts: 0 },
  ])
  expect(runners).toEqual([
    { address: 'http://busy', attempts: 1 },
    { address: 'http://idle', attempts: 0 },
  ])
})
