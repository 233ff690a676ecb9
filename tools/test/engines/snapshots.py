"""Reads each snapshot of an append_only table, and the rows that its snapshots append.

Called with a JSON text: the address of the service, the table, and the expected ids of each commit. Prints one line for each
difference.
"""

import json
import sys

from pyiceberg.catalog import load_catalog
from spark import session

TASK = json.loads(sys.argv[1])
URL, TABLE = TASK["url"], TASK["table"]

catalog = load_catalog("sluice", uri=f"{URL}/iceberg", warehouse="sluice")
table = catalog.load_table(("default", "gold", TABLE))
spark = session(URL, TASK["jars"])
name = f"sluice.default.gold.{TABLE}"
differences = []


def compare(what, rows, expected):
    found = sorted(rows)
    if found != sorted(expected):
        differences.append(f"{what}: {len(found)} rows instead of {len(expected)}: {found[:5]} {found[-5:]}")


def ids(frame):
    return [row[0] for row in frame.select("id").collect()]


def appended(start, end):
    options = {"start-snapshot-id": str(start), "end-snapshot-id": str(end)}
    return ids(spark.read.format("iceberg").options(**options).load(name))


states = {int(state["snapshot_id"]): state["ids"] for state in TASK["states"]}
if not any(one.summary.operation.value == "replace" for one in table.snapshots()):
    differences.append("no snapshot combines files")
for snapshot, expected in states.items():
    compare(f"PyIceberg at {snapshot}", table.scan(snapshot_id=snapshot).to_arrow()["id"].to_pylist(), expected)
    compare(f"Spark at {snapshot}", ids(spark.sql(f"select id from {name} version as of {snapshot}")), expected)
# A snapshot that combines files has the rows of its parent.
rows = {None: []}
for one in table.snapshots():
    rows[one.snapshot_id] = table.scan(snapshot_id=one.snapshot_id).to_arrow()["id"].to_pylist()
    if one.summary.operation.value == "replace":
        compare(f"replace {one.snapshot_id}", rows[one.snapshot_id], rows[one.parent_snapshot_id])
(first, oldest), *later = states.items()
(last, newest) = later[-1]
compare("all appended rows", appended(first, last), newest[len(oldest) :])
before, known = first, oldest
for snapshot, expected in later:
    compare(f"rows appended from {before} to {snapshot}", appended(before, snapshot), expected[len(known) :])
    before, known = snapshot, expected
print("\n".join(differences))
sys.exit(1 if differences else 0)
