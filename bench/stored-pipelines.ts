import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type postgres from 'postgres'
import { LAYERS } from '../ground/names.ts'
import { store } from '../machines/advance.ts'
import { DRAFT_MACHINE_VERSION, newDraft } from '../machines/draft.ts'

const FILES_AT_ONCE = 100
/** The time part of every stored file version: microseconds since 1970. */
const VERSION = '0001763711234567'

interface Stored {
  pipelines: number
  namespaces: number
  zones: number
}

/**
 * Stores published pipelines in namespaces `ns0`, `ns1` and so on, with files, tables and landing zones. Returns the paths of the
 * files.
 */
export async function storePipelines(sql: postgres.Sql, root: string, stored: Stored): Promise<string[]> {
  const pipelines = Array.from({ length: stored.pipelines }, (_, n) => {
    const { namespace, layer, name } = placeOf(n, stored)
    const source = sourceOf(n, stored)
    const key = `${namespace}/pipelines/${layer}/${name}/pipeline.sql`
    const versionId = `${VERSION}~${source.length}`
    return { namespace, layer, name, key, versionId, source, path: join(root, `${key}~${versionId}`) }
  })
  for (let at = 0; at < pipelines.length; at += FILES_AT_ONCE)
    await Promise.all(
      pipelines.slice(at, at + FILES_AT_ONCE).map(async ({ path, source }) => {
        await mkdir(dirname(path), { recursive: true })
        await writeFile(path, source)
      }),
    )
  const rows = pipelines.map(({ namespace, layer, name, key, versionId }) => ({
    namespace,
    layer,
    name,
    pins: { [key]: versionId },
  }))
  const draft = { ...(store(newDraft()) as object) }
  await sql`insert into namespace (name) select 'ns' || n from generate_series(0, ${stored.namespaces - 1}) n`
  await sql`
    insert into pipeline (id, namespace, layer, name, type, draft_snapshot, draft_machine_version, draft_dirty, published_version)
    select gen_random_uuid(), namespace, layer, name, 'sql', ${sql.json(draft)}, ${DRAFT_MACHINE_VERSION}, false, 1
    from jsonb_to_recordset(${sql.json(rows)}) as p(namespace text, layer text, name text)`
  await sql`
    insert into pipeline_version (id, pipeline_id, version_number, message, pipeline_type, published_versions, landing_zones)
    select gen_random_uuid(), p.id, 1, '', 'sql', r.pins, '[]'
    from jsonb_to_recordset(${sql.json(rows)}) as r(namespace text, layer text, name text, pins jsonb)
    join pipeline p using (namespace, layer, name)`
  await sql`
    with contents as (
      insert into lake_content (id, table_uuid, metadata_location, columns, row_count, size_bytes)
      select id, gen_random_uuid(), '', '[]', 1000, 100000 from pipeline returning id)
    insert into main_entry (namespace, layer, name, content_id, from_commit)
    select namespace, layer, name, id, 1 from pipeline join contents using (id)`
  await sql`
    insert into landing_zone (id, namespace, name)
    select gen_random_uuid(), 'ns' || n % ${stored.namespaces}, 'zone-' || n from generate_series(0, ${stored.zones - 1}) n`
  return pipelines.map(({ path }) => path)
}

const placeOf = (n: number, { namespaces }: Stored) => ({
  namespace: `ns${n % namespaces}`,
  layer: LAYERS[Math.floor(n / namespaces) % 3] ?? 'gold',
  name: `p${n}`,
})

function sourceOf(n: number, stored: Stored): string {
  const { namespaces, zones } = stored
  if (placeOf(n, stored).layer === 'bronze')
    return `select *, current_timestamp as loaded_at\nfrom read_csv_auto('{{ landing_zone("zone-${n % zones}") }}')\nwhere id is not null\n`
  const near = placeOf(n - namespaces, stored)
  const far = placeOf(n - namespaces - (n % namespaces) + ((n + 1) % namespaces), stored)
  return `-- @merge_strategy: incremental
-- @unique_key: id
with orders as (
  select * from {{ ref('${near.layer}.${near.name}') }} where status <> 'cancelled' -- {{ ref('${near.layer}.gone') }}
), customers as (
  select id, name, sum(amount) as total, count(*) as orders
  from {{ ref('${far.namespace}.${far.layer}.${far.name}') }}
  where day > current_date - 30
  group by id, name
)
select orders.id, customers.name, customers.total, case when customers.total > 100 then 'large' else 'small' end as size
from orders left join customers using (id)
{% if is_incremental() %}where orders.updated_at > '{{ watermark_value }}'{% endif %}
`
}
