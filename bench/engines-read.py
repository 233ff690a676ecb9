"""Times one engine on the table `ours` of Sluice and on `theirs`, which Spark writes with the same rows on a branch."""

import json
import os
import sys
import time

sys.path.append(os.path.join(os.path.dirname(__file__), "..", "tools", "test", "engines"))

ENGINE, TASK = sys.argv[1], json.loads(sys.argv[2])
URL, WAREHOUSE, TIMES = TASK["url"], "sluice@bench", 3

QUERIES = {
    "sum and distinct": "select sum(amount), count(distinct customer) from {t}",
    "group by": "select count(*), max(total) from (select customer, sum(amount) as total from {t} group by customer) g",
}


def with_spark():
    from spark import catalog_of, session

    spark = session(URL, TASK["jars"])
    catalog = catalog_of(spark, URL, WAREHOUSE)
    source = f"{catalog}.default.gold"
    spark.sql(f"create table {source}.theirs using iceberg as select * from {source}.ours")
    return lambda sql, table: spark.sql(sql.replace("{t}", f"{source}.{table}")).collect()


def with_trino():
    from trino_catalogs import catalog_of, connect

    connection = connect(TASK["port"])
    catalog = catalog_of(connection, URL, WAREHOUSE)

    def execute(sql, table):
        cursor = connection.cursor()
        cursor.execute(sql.replace("{t}", f'{catalog}."default.gold".{table}'))
        return cursor.fetchall()

    return execute


execute = {"spark": with_spark, "trino": with_trino}[ENGINE]()
for name, sql in QUERIES.items():
    best = {"ours": float("inf"), "theirs": float("inf")}
    answers = set()
    # One warm-up. Both tables alternate, so that other load concerns both.
    for attempt in range(TIMES + 1):
        for table in best:
            since = time.perf_counter()
            answers.add(str([tuple(row) for row in execute(sql, table)]))
            if attempt > 0:
                best[table] = min(best[table], time.perf_counter() - since)
    assert len(answers) == 1, answers
    ours, theirs = best["ours"], best["theirs"]
    print(f"  {name.ljust(20)} Sluice {ours:8.2f}   Spark's files {theirs:8.2f}   {ours / theirs:5.2f} x")
