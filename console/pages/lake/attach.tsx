import { useState } from 'react'
import { ROOT } from '../../api/request.ts'
import { hasCredential } from '../../api/session.ts'
import { Segments } from '../../design/controls.tsx'
import { Card, CodeBlock } from '../../design/surfaces.tsx'

export interface TableAt {
  ns: string
  layer: string
  name: string
}

const ENGINES = ['duckdb', 'pyiceberg', 'spark'] as const
type Engine = (typeof ENGINES)[number]
const LABELS: Record<Engine, string> = { duckdb: 'DuckDB', pyiceberg: 'PyIceberg', spark: 'Spark' }

/** How another engine reads the table through the Iceberg REST catalog. A key is named KEY, never shown. */
export function Attach({ at, branch }: { at: TableAt; branch: string }) {
  const [engine, setEngine] = useState<Engine>('duckdb')
  const code = codeOf(engine, at, branch === '' ? 'sluice' : `sluice@${branch}`)
  return (
    <Card
      title="Read it with another engine"
      actions={
        <Segments
          label="Engine"
          value={engine}
          choices={ENGINES.map((value) => ({ value, label: LABELS[value] }))}
          onChange={setEngine}
        />
      }
    >
      <CodeBlock code={code} label={`Commands for ${LABELS[engine]}`} />
    </Card>
  )
}

/** The commands of docs/engines.md, for this installation. */
function codeOf(engine: Engine, { ns, layer, name }: TableAt, warehouse: string): string {
  const uri = new URL('iceberg', ROOT).href
  const hasKey = hasCredential()
  if (engine === 'pyiceberg')
    return `# pip install 'pyiceberg[pyarrow]==0.12.*'
from pyiceberg.catalog import load_catalog

catalog = load_catalog('sluice', uri='${uri}', warehouse='${warehouse}'${hasKey ? ", token='KEY'" : ''})
print(catalog.load_table('${ns}.${layer}.${name}').scan().to_arrow())`
  if (engine === 'spark')
    return `spark-sql --packages org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0,org.apache.iceberg:iceberg-aws-bundle:1.12.0 \\
  --conf spark.sql.extensions=org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions \\
  --conf spark.sql.catalog.sluice=org.apache.iceberg.spark.SparkCatalog --conf spark.sql.catalog.sluice.type=rest \\
  --conf spark.sql.catalog.sluice.uri=${uri} --conf spark.sql.catalog.sluice.warehouse=${warehouse} \\${
    hasKey ? '\n  --conf spark.sql.catalog.sluice.token=KEY \\' : ''
  }
  -e 'select * from sluice.${ns}.${layer}.${name}'`
  const attach = hasKey
    ? `create secret sluice (type iceberg, token 'KEY');
attach '${warehouse}' as lake (type iceberg, endpoint '${uri}', secret sluice);`
    : `attach '${warehouse}' as lake (type iceberg, endpoint '${uri}', authorization_type 'none');`
  return `install iceberg; load iceberg;
${attach}
select * from lake."${ns}__${layer}"."${name}";`
}
