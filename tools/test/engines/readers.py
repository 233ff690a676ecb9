"""Reads tables of Sluice with one foreign engine and compares all rows.

Called with the name of the engine and a JSON text: the address of the service and the tables, each with the query that made it.
DuckDB executes that query for the expected rows. Prints one line for each difference.
"""

import datetime
import decimal
import functools
import glob
import importlib
import json
import math
import os
import sys
import urllib.request
import uuid

os.environ["TZ"] = "UTC"

import duckdb

ENGINE, TASK = sys.argv[1], json.loads(sys.argv[2])
URL = TASK["url"]
UTC = datetime.timezone.utc


def canonical(value, column_type):
    """One text for a value, whatever Python type an engine returns for it."""
    if value is None:
        return "null"
    if isinstance(value, dict) and "key" in value and "value" in value:
        value = list(zip(value["key"], value["value"]))
    if isinstance(value, dict):
        value = list(value.items())
    if type(value).__name__ == "NamedRowTuple":
        value = list(zip(value.__annotations__["names"], value))
    if hasattr(value, "asDict"):
        value = list(value.asDict().items())
    if isinstance(value, (list, tuple)) or type(value).__name__ == "ndarray":
        return "[" + ", ".join(canonical(one, "") for one in value) + "]"
    if isinstance(value, bytes) and column_type == "varchar":
        value = value.decode()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return uuid.UUID(bytes=bytes(value)).hex if column_type == "uuid" else bytes(value).hex()
    if isinstance(value, uuid.UUID) or column_type == "uuid":
        return uuid.UUID(str(value)).hex
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None:
            value = value.astimezone(UTC).replace(tzinfo=None)
        return value.isoformat(timespec="microseconds")
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return "nan" if math.isnan(value) else repr(value)
    if isinstance(value, decimal.Decimal):
        text = format(value, "f")
        return text.rstrip("0").rstrip(".") if "." in text else text
    return str(value)


def rows_of(rows, columns, types):
    return sorted(
        " | ".join(canonical(value, types.get(column, "")) for column, value in zip(columns, row)) for row in rows
    )


def values_of(arrow, columns):
    return zip(*(arrow[column].to_pylist() for column in columns))


def with_pyiceberg(table, columns, warehouse):
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog("sluice", uri=f"{URL}/iceberg", warehouse=warehouse)
    found = catalog.load_table(("default", "gold", table)).scan(selected_fields=tuple(columns)).to_arrow()
    return values_of(found, columns)


def with_duckdb(table, columns, warehouse):
    connection = duckdb.connect()
    for extension in ("httpfs", "avro", "iceberg"):
        package = importlib.import_module(f"duckdb_extension_{extension}")
        files = os.path.join(os.path.dirname(package.__file__), "extensions", "*", "*.duckdb_extension")
        connection.load_extension(glob.glob(files)[0])
    connection.sql(f"attach '{warehouse}' as lake (type iceberg, endpoint '{URL}/iceberg', authorization_type 'none')")
    query = f'select {", ".join(columns)} from lake."default__gold".{table}'
    return values_of(connection.sql(query).to_arrow_table(), columns)


def loaded(table):
    request = urllib.request.Request(
        f"{URL}/iceberg/v1/sluice/namespaces/default__gold/tables/{table}",
        headers={"X-Iceberg-Access-Delegation": "vended-credentials"},
    )
    return json.load(urllib.request.urlopen(request))


def with_chdb(table, columns, _):
    import chdb

    found = loaded(table)
    config, location = found["config"], found["metadata"]["location"]
    names = ("s3.access-key-id", "s3.secret-access-key", "s3.session-token")
    keys = ", ".join(f"'{config[name]}'" for name in names)
    file = found["metadata-location"].removeprefix(location + "/")
    source = f"icebergS3('{location.replace('s3://', URL + '/')}/', {keys}, SETTINGS iceberg_metadata_file_path = '{file}')"
    query = f"select {', '.join(columns)} from {source} settings session_timezone = 'UTC', output_format_arrow_string_as_string = 0"
    arrow = chdb.query(query, "ArrowTable")
    return values_of(arrow, columns)


def with_sail(table, columns, _):
    # The server reads the credentials at its start, and one process has one server. So each table has its own process.
    config = loaded(table)["config"]
    os.environ.update(
        {
            "SAIL_CATALOG__LIST": f'[{{name="sluice", type="iceberg-rest", uri="{URL}/iceberg", warehouse="sluice"}}]',
            "SAIL_CATALOG__DEFAULT_CATALOG": "sluice",
            "AWS_ENDPOINT": config["s3.endpoint"],
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": config["s3.region"],
            "AWS_ACCESS_KEY_ID": config["s3.access-key-id"],
            "AWS_SECRET_ACCESS_KEY": config["s3.secret-access-key"],
            "AWS_SESSION_TOKEN": config["s3.session-token"],
        }
    )
    from pysail.spark import SparkConnectServer
    from pyspark.sql import SparkSession

    server = SparkConnectServer(ip="127.0.0.1", port=0)
    server.start(background=True)
    spark = SparkSession.builder.remote(f"sc://127.0.0.1:{server.listening_address[1]}").getOrCreate()
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    arrow = spark.sql(f"select {', '.join(columns)} from sluice.default__gold.{table}").toArrow()
    return values_of(arrow, columns)


@functools.cache
def spark_session():
    from spark import session

    return session(URL, TASK["jars"])


def with_spark(table, columns, warehouse):
    from spark import catalog_of

    name = catalog_of(spark_session(), URL, warehouse)
    return spark_session().sql(f"select {', '.join(columns)} from {name}.default.gold.{table}").collect()


def with_trino(table, columns, warehouse):
    from trino_catalogs import catalog_of, connect

    connection = connect(TASK["port"])
    name = catalog_of(connection, URL, warehouse)
    cursor = connection.cursor()
    cursor.execute(f'select {", ".join(columns)} from {name}."default.gold".{table}')
    return cursor.fetchall()


def with_sluice(table, columns, warehouse):
    """The rows of the query service. Values are compared as texts of DuckDB."""
    _, _, branch = warehouse.partition("@")
    texts = ", ".join(f"{column}::varchar as {column}" for column in columns)
    body = {"sql": f"select {texts} from gold.{table}", "limit": 10000, **({"branch": branch} if branch else {})}
    request = urllib.request.Request(
        f"{URL}/api/v1/query", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    rows = json.load(urllib.request.urlopen(request))["rows"]
    return [[row[column] for column in columns] for row in rows]


READERS = {
    "pyiceberg": with_pyiceberg,
    "duckdb": with_duckdb,
    "chdb": with_chdb,
    "sail": with_sail,
    "spark": with_spark,
    "trino": with_trino,
    "sluice": with_sluice,
}


def compare(table):
    model = duckdb.connect()
    for statement in table.get("prepare", []):
        model.execute(statement)
    own = model.sql(table["query"])
    left_out = table.get("without", {}).get(ENGINE, [])
    columns = [column for column in own.columns if column not in left_out]
    types = {column: str(kind).lower() for column, kind in zip(own.columns, own.types)}
    if ENGINE == "sluice":
        own = own.select(", ".join(f"{column}::varchar as {column}" for column in columns))
        types = {}
    expected = rows_of(values_of(own.to_arrow_table(), columns), columns, types)
    found = rows_of(READERS[ENGINE](table["name"], columns, table.get("warehouse", "sluice")), columns, types)
    if len(found) != len(expected):
        yield f"{table['name']}: {len(found)} rows instead of {len(expected)}"
    for one, other in list(zip(found, expected)):
        if one != other:
            yield f"{table['name']}: {one} instead of {other}"
            break


differences = [line for table in TASK["tables"] for line in compare(table)]
print("\n".join(differences))
sys.stdout.flush()
# Sail's server sometimes never ends its threads.
os._exit(1 if differences else 0)
