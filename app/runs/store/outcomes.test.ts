import { expect, test } from 'bun:test'
import type { Outcome } from '../outcome.ts'
import { accepted, failed, useRuns } from '../test-runs.ts'
import { applyOutcomes } from './outcomes.ts'

const { opened, requested, start } = useRuns()

test('an acceptance and a phase commit without waiting for the disk', async () => {
  await opened.sql
    .unsafe(`
      create table noted (event text, mode text);
      create function note() returns trigger language plpgsql as $$
        begin insert into noted values (new.event, current_setting('synchronous_commit')); return null; end $$;
      create constraint trigger note after insert on transition deferrable initially deferred
        for each row execute function note()`)
    .simple()
  const id = await requested('one')
  await start()
  // The databases of tests are not durable.
  const [{ name } = {}] = await opened.sql`select current_database() as name`
  await opened.sql`alter database ${opened.sql(String(name))} set synchronous_commit = on`
  const durable = opened.session('test')
  const tell = (outcome: Outcome) => applyOutcomes(durable, [outcome], [])
  await tell(accepted(id))
  await tell({ runId: id, attempt: 1, kind: 'entered', phase: 'executing' })
  await tell(failed(id, 'executing: it failed'))
  const events = ['accepted', 'entered', 'executionFailed']
  expect(await opened.sql`select event, mode from noted where event = any(${events})`).toEqual([
    { event: 'accepted', mode: 'off' },
    { event: 'entered', mode: 'off' },
    { event: 'executionFailed', mode: 'on' },
  ] as never)
})
