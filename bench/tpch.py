"""Writes the tables of TPC-H as Parquet files below 32 MB, and its queries: tpch.py SCALE_FACTOR DIRECTORY."""

import json
import os
import sys

import duckdb
import duckdb_extension_tpch

TABLES = ["customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier"]

scale, directory = sys.argv[1:]
extension = os.path.join(
    os.path.dirname(duckdb_extension_tpch.__file__),
    "extensions",
    f"v{duckdb.__version__}",
    "tpch.duckdb_extension",
)
connection = duckdb.connect(config={"allow_unsigned_extensions": True})
connection.execute(f"INSTALL '{extension}'")
connection.execute("LOAD tpch")
connection.execute(f"CALL dbgen(sf = {float(scale)})")
for table in TABLES:
    # A file may be larger than this size by one row group.
    connection.execute(f"COPY {table} TO '{directory}/{table}' (FORMAT parquet, FILE_SIZE_BYTES '20MB')")
queries = [query for (query,) in connection.execute("SELECT query FROM tpch_queries() ORDER BY query_nr").fetchall()]
with open(os.path.join(directory, "queries.json"), "w") as file:
    json.dump(queries, file)
