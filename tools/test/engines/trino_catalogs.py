"""Connections to Trino with the Iceberg catalogs of Sluice."""

import trino


def connect(port):
    return trino.dbapi.connect(host="127.0.0.1", port=port, user="judge", timezone="UTC")


def catalog_of(connection, url, warehouse):
    """The name of the Trino catalog for a warehouse, such as `sluice@fix`."""
    name = warehouse.replace("@", "_").replace("-", "_")
    properties = {
        "iceberg.catalog.type": "rest",
        "iceberg.rest-catalog.uri": f"{url}/iceberg",
        "iceberg.rest-catalog.warehouse": warehouse,
        "iceberg.rest-catalog.vended-credentials-enabled": "true",
        "iceberg.rest-catalog.nested-namespace-enabled": "true",
        "fs.native-s3.enabled": "true",
        "s3.endpoint": f"{url}/s3",
        "s3.region": "us-east-1",
        "s3.path-style-access": "true",
    }
    pairs = ", ".join(f"\"{key}\" = '{value}'" for key, value in properties.items())
    cursor = connection.cursor()
    cursor.execute(f"create catalog if not exists {name} using iceberg with ({pairs})")
    cursor.fetchall()
    return name
