"""A Spark session with the Iceberg catalogs of Sluice."""

import uuid

from pyspark.sql import SparkSession

EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"


def session(url, jars):
    builder = (
        SparkSession.builder.master("local[2]")
        # On the class path of the JVM, so that Python can use classes of Iceberg.
        .config("spark.driver.extraClassPath", ":".join(jars))
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.extensions", EXTENSIONS)
        .config("spark.sql.session.timeZone", "UTC")
    )
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    catalog_of(spark, url, "sluice")
    return spark


def catalog_of(spark, url, warehouse):
    """The name of the Spark catalog for a warehouse, such as `sluice@fix`."""
    name = warehouse.replace("@", "_").replace("-", "_")
    at = f"spark.sql.catalog.{name}"
    spark.conf.set(at, "org.apache.iceberg.spark.SparkCatalog")
    for option, value in {"type": "rest", "uri": f"{url}/iceberg", "warehouse": warehouse}.items():
        spark.conf.set(f"{at}.{option}", value)
    # Each read sees the newest commit.
    spark.conf.set(f"{at}.cache-enabled", "false")
    return name


def delete_by_equality(spark, name, ids):
    """Writes an equality delete file for these ids, as streaming engines do. Spark SQL never writes one."""
    iceberg = spark._jvm.org.apache.iceberg
    table = iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name)
    gateway = spark.sparkContext._gateway
    field = table.schema().findField("id")
    field_ids = gateway.new_array(gateway.jvm.int, 1)
    field_ids[0] = field.fieldId()
    fields = gateway.jvm.java.util.ArrayList()
    fields.add(field)
    deleted = iceberg.Schema(fields)
    builder = getattr(iceberg.data, "GenericFileWriterFactory$Builder")(table)
    parquet = iceberg.FileFormat.PARQUET
    factory = builder.deleteFileFormat(parquet).equalityFieldIds(field_ids).equalityDeleteRowSchema(deleted).build()
    location = table.locationProvider().newDataLocation(f"equality-{uuid.uuid4()}.parquet")
    output = iceberg.encryption.EncryptedFiles.plainAsEncryptedOutput(table.io().newOutputFile(location))
    writer = factory.newEqualityDeleteWriter(output, table.spec(), None)
    record = iceberg.data.GenericRecord.create(deleted)
    for value in ids:
        writer.write(record.copy({"id": value}))
    writer.close()
    table.newRowDelta().addDeletes(writer.toDeleteFile()).commit()
