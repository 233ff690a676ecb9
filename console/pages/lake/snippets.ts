// The commands with which other engines read a table through the Iceberg REST catalog, as in docs/engines.md. A test executes
// them, so this file imports nothing.

interface TableAt {
  ns: string
  layer: string
  name: string
}

export const ENGINES = ['duckdb', 'pyiceberg', 'spark'] as const
export type Engine = (typeof ENGINES)[number]

interface Catalog {
  /** The address of the catalog. */
  uri: string
  /** `sluice` is main; `sluice@<name>` is a branch or a tag. */
  warehouse: string
  /** Whether the catalog needs a key. The commands name it KEY and never show it. */
  hasKey: boolean
}

export const warehouseOf = (branchOrTag: string): string =>
  branchOrTag === '' ? 'sluice' : `sluice@${branchOrTag}`

export function snippetOf(
  engine: Engine,
  { ns, layer, name }: TableAt,
  { uri, warehouse, hasKey }: Catalog,
): string {
  switch (engine) {
    case 'duckdb': {
      const attach = hasKey
        ? `create secret sluice (type iceberg, token 'KEY');
attach '${warehouse}' as lake (type iceberg, endpoint '${uri}', secret sluice);`
        : `attach '${warehouse}' as lake (type iceberg, endpoint '${uri}', authorization_type 'none');`
      return `install iceberg; load iceberg;
${attach}
select * from lake."${ns}__${layer}"."${name}";`
    }
    case 'pyiceberg':
      return `# pip install 'pyiceberg[pyarrow]==0.12.*'
from pyiceberg.catalog import load_catalog

catalog = load_catalog('sluice', uri='${uri}', warehouse='${warehouse}'${hasKey ? ", token='KEY'" : ''})
print(catalog.load_table('${ns}.${layer}.${name}').scan().to_arrow())`
    case 'spark':
      return `spark-sql --packages org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0,org.apache.iceberg:iceberg-aws-bundle:1.12.0 \\
  --conf spark.sql.extensions=org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions \\
  --conf spark.sql.catalog.sluice=org.apache.iceberg.spark.SparkCatalog --conf spark.sql.catalog.sluice.type=rest \\
  --conf spark.sql.catalog.sluice.uri=${uri} --conf spark.sql.catalog.sluice.warehouse=${warehouse} \\${
    hasKey ? '\n  --conf spark.sql.catalog.sluice.token=KEY \\' : ''
  }
  -e 'select * from sluice.\`${ns}\`.${layer}.\`${name}\`'`
  }
}
