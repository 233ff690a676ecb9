// Diffs of runs whose branch entries are deleted: the numbers that the writes of the run reported.
import type { SqlTx } from '../../../drizzle/client.ts'

/**
 * Stores the diffs of runs before the entries of these branches are deleted. A diff that a client has read is stored already and
 * stays. Columns are compared by name and type, because the metadata files may be gone.
 */
export async function keepRunDiffs(tx: SqlTx, branches: readonly string[]): Promise<void> {
  await tx`
    insert into run_diff (run_id, diff)
    select f.run_id, jsonb_build_object('from', coalesce(f.parent, 'main'), 'to', f.name, 'total', count(*),
      'tables', jsonb_agg(jsonb_build_object(
        'namespace', e.namespace, 'layer', e.layer, 'name', e.name,
        'change', case when b.id is null then 'added' else 'changed' end,
        'rows_before', coalesce(b.row_count, 0), 'rows_after', a.row_count,
        'rows_added', a.rows_added, 'rows_removed', a.rows_removed, 'conflict', false,
        'schema', jsonb_build_object(
          'added', ${columnsOnlyIn(tx, 'a', 'b')},
          'removed', ${columnsOnlyIn(tx, 'b', 'a')},
          'changed', (
            select coalesce(jsonb_agg(jsonb_build_object('name', n ->> 'name', 'from', o ->> 'type', 'to', n ->> 'type',
              'renamed_from', null)), '[]')
            from jsonb_array_elements(a.columns) n join jsonb_array_elements(b.columns) o
              on o ->> 'name' = n ->> 'name' and o ->> 'type' <> n ->> 'type'))
      ) order by e.namespace, e.layer, e.name))
    from lake_ref f
    join run r on r.id = f.run_id and r.attempt = f.attempt
    join branch_entry e on e.ref = f.name and e.content_id is distinct from e.base_content
    join lake_content a on a.id = e.content_id
    left join lake_content b on b.id = e.base_content
    where f.name = any(${branches as string[]})
    group by f.run_id, f.parent, f.name
    on conflict (run_id) do nothing`
}

const columnsOnlyIn = (tx: SqlTx, own: 'a' | 'b', other: 'a' | 'b') => tx`(
  select coalesce(jsonb_agg(own), '[]') from jsonb_array_elements(${tx(own)}.columns) own
  where not exists (
    select from jsonb_array_elements(${tx(other)}.columns) other where other ->> 'name' = own ->> 'name'))`
