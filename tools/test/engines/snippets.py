"""Executes a snippet of the console as a person would paste it, and prints what it shows.

Called with the name of the engine, the snippet and a directory for files. `install` of DuckDB finds the extensions of the
installed packages in that directory instead of a server.
"""

import glob
import gzip
import importlib
import os
import sys

ENGINE, CODE, DIRECTORY = sys.argv[1:]


def with_duckdb():
    import duckdb

    repository = os.path.join(DIRECTORY, "repository")
    connection = duckdb.connect(
        config={
            "custom_extension_repository": repository,
            "autoinstall_extension_repository": repository,
            "extension_directory": os.path.join(DIRECTORY, "installed"),
        }
    )
    version = connection.sql("pragma version").fetchone()[0]
    platform = connection.sql("pragma platform").fetchone()[0]
    target = os.path.join(repository, version, platform)
    os.makedirs(target, exist_ok=True)
    for extension in ("httpfs", "avro", "iceberg"):
        package = importlib.import_module(f"duckdb_extension_{extension}")
        files = os.path.join(os.path.dirname(package.__file__), "extensions", "*", "*.duckdb_extension")
        path = os.path.join(target, f"{extension}.duckdb_extension.gz")
        if not os.path.exists(path):
            with open(glob.glob(files)[0], "rb") as source, gzip.open(path, "wb", compresslevel=1) as stored:
                stored.write(source.read())
    print(connection.sql(CODE))


def with_pyiceberg():
    exec(CODE, {})


{"duckdb": with_duckdb, "pyiceberg": with_pyiceberg}[ENGINE]()
