"""Lets one foreign engine write tables of Sluice.

Called with the name of the engine and a JSON text: the address of the service, the warehouse, and the tables with their
statements. `{t}` in a statement is the name of the table.
"""

import json
import os
import sys

os.environ["TZ"] = "UTC"

ENGINE, TASK = sys.argv[1], json.loads(sys.argv[2])
URL, WAREHOUSE = TASK["url"], TASK["warehouse"]


def with_spark():
    from spark import catalog_of, delete_by_equality, session

    spark = session(URL, TASK["jars"])
    catalog = catalog_of(spark, URL, WAREHOUSE)

    def execute(table, statement):
        name = f"{catalog}.default.gold.{table}"
        if "check" in statement:
            assert spark.sql(statement["check"].replace("{t}", name)).collect()[0][0], statement
        elif "delete_equal" in statement:
            delete_by_equality(spark, name, statement["delete_equal"])
        else:
            spark.sql(statement["sql"].replace("{t}", name))

    return execute


def with_trino():
    from trino_catalogs import catalog_of, connect

    connection = connect(TASK["port"])
    catalog = catalog_of(connection, URL, WAREHOUSE)

    def execute(table, statement):
        cursor = connection.cursor()
        cursor.execute(statement["sql"].replace("{t}", f'{catalog}."default.gold".{table}'))
        cursor.fetchall()

    return execute


def with_pyiceberg():
    import duckdb
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog("sluice", uri=f"{URL}/iceberg", warehouse=WAREHOUSE)

    def execute(table, statement):
        loaded = catalog.load_table(("default", "gold", table))
        if "rows" not in statement:
            return loaded.delete(statement["where"])
        rows = duckdb.sql(statement["rows"]).to_arrow_table().cast(loaded.schema().as_arrow())
        return loaded.overwrite(rows, statement["where"]) if "where" in statement else loaded.append(rows)

    return execute


execute = {"spark": with_spark, "trino": with_trino, "pyiceberg": with_pyiceberg}[ENGINE]()
for table in TASK["tables"]:
    for statement in table["statements"]:
        try:
            execute(table["name"], statement)
        except Exception as error:
            sys.exit(f"{table['name']}: {statement}: {error}")
