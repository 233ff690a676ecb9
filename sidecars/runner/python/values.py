"""Values of Python, values of the engine, and the JSON between them.

A type is a tree of one of these forms:

- {"kind": "scalar", "name": "BIGINT"}
- {"kind": "decimal", "precision": 9, "scale": 2}
- {"kind": "list", "element": ...}
- {"kind": "struct", "fields": [{"name", "type"}]}
- {"kind": "map", "key", "value"}
- {"kind": "null"} for a column that contains only None

JSON carries texts, whole numbers up to 64 bits, finite floats, booleans, arrays and objects. All other values
travel as text that the engine casts.
"""

import base64
import datetime
import decimal
import json
import math
import re
import uuid

Decimal = decimal.Decimal
UTC = datetime.timezone.utc
EPOCH = datetime.datetime(1970, 1, 1)
EPOCH_DAY = EPOCH.toordinal()
DECIMAL_DIGITS = 38
CHUNK_ROWS = 10_000
CHUNK_CELLS = 200_000


class BadResult(Exception):
    """An error in a result, explained to the author of the pipeline."""


def type_name(value):
    kind = value if isinstance(value, type) else type(value)
    return kind.__name__ if kind.__module__ in ("builtins", "__main__") else kind.__module__ + "." + kind.__name__


# ---- from the engine ---------------------------------------------------------------------------------------


def decoder(tree):
    """The function that turns the JSON of a value that is not null into a Python value; None: no change."""
    kind = tree["kind"]
    if kind == "decimal":
        return Decimal
    if kind == "scalar":
        return SCALAR_DECODERS.get(tree["name"])
    if kind == "list":
        element = nullable(decoder(tree["element"]))
        return element and (lambda items: [element(item) for item in items])
    if kind == "struct":
        fields = {field["name"]: nullable(decoder(field["type"])) for field in tree["fields"]}
        fields = {name: decode for name, decode in fields.items() if decode}
        return fields and (
            lambda row: {name: fields[name](item) if name in fields else item for name, item in row.items()}
        )
    if kind == "map":
        key, item = map_key(tree["key"]), nullable(decoder(tree["value"])) or same
        return lambda entries: {key(name): item(value) for name, value in entries.items()}
    return None


def same(value):
    return value


def nullable(decode):
    return decode and (lambda value: None if value is None else decode(value))


def map_key(tree):
    """The function that decodes a key of a map, because keys of JSON objects are texts."""
    if tree.get("name") in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"):
        return int
    if tree.get("name") in ("FLOAT", "DOUBLE"):
        return float
    if tree.get("name") == "BOOLEAN":
        return lambda text: text == "true"
    return decoder(tree) or same


def day_of(text):
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise ValueError("the date " + text + " is outside Python's range: cast it to VARCHAR") from None


TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.(\d{1,6})(\d*))?(?:\+00(?::00)?)?$")


def moment_of(text):
    """Parses `2020-01-01 10:00:00.5`, the engine's format."""
    match = TIMESTAMP.match(text)
    if match is None:
        raise ValueError("the timestamp " + text + " is outside Python's range: cast it to VARCHAR")
    day, clock, fraction, nanoseconds = match.groups()
    if (nanoseconds or "").strip("0"):
        raise ValueError("the timestamp " + text + " has nanoseconds, which Python does not keep: cast it to TIMESTAMP or VARCHAR")
    return datetime.datetime.fromisoformat(day + "T" + clock + "." + (fraction or "0").ljust(6, "0"))


def instant_of(text):
    return moment_of(text).replace(tzinfo=UTC)


def clock_of(text):
    clock, _, fraction = text.partition(".")
    return datetime.time.fromisoformat(clock + "." + fraction[:6].ljust(6, "0"))


ESCAPED = re.compile(rb"\\x([0-9A-Fa-f]{2})")


def bytes_of(text):
    """Parses `a\\x00b`, the engine's text of a BLOB."""
    raw = text.encode("ascii")
    return ESCAPED.sub(lambda found: bytes([int(found[1], 16)]), raw) if b"\\" in raw else raw


SCALAR_DECODERS = {
    "HUGEINT": int,
    "UHUGEINT": int,
    "DATE": day_of,
    "TIME": clock_of,
    "TIMESTAMP": moment_of,
    "TIMESTAMP_S": moment_of,
    "TIMESTAMP_MS": moment_of,
    "TIMESTAMP_NS": moment_of,
    "TIMESTAMP WITH TIME ZONE": instant_of,
    "UUID": uuid.UUID,
    "BLOB": bytes_of,
    "FLOAT": float,
    "DOUBLE": float,
}
# Values at the top of a column arrive in forms that are quicker to read.
COLUMN_DECODERS = {
    "TIMESTAMP": lambda micros: EPOCH + datetime.timedelta(microseconds=micros),
    "TIMESTAMP WITH TIME ZONE": lambda micros: (EPOCH + datetime.timedelta(microseconds=micros)).replace(tzinfo=UTC),
    "DATE": lambda days: datetime.date.fromordinal(EPOCH_DAY + days),
    "BLOB": base64.b64decode,
    "FLOAT": None,
    "DOUBLE": None,
}


def read_rows(path, columns):
    """The rows of a file of JSON lines, as dicts. `columns`: name and type of each column, in order."""
    decoders = []
    for column in columns:
        tree = column["type"]
        name = tree.get("name")
        decode = COLUMN_DECODERS[name] if name in COLUMN_DECODERS else decoder(tree)
        if decode:
            decoders.append((column["name"], decode))
    rows = []
    with open(path, "rb") as file:
        while True:
            lines = file.readlines(1 << 22)
            if not lines:
                return rows
            chunk = json.loads(b"[" + b",".join(lines) + b"]")
            for name, decode in decoders:
                for row in chunk:
                    value = row[name]
                    if value is not None:
                        try:
                            row[name] = decode(value)
                        except (OverflowError, ValueError) as error:
                            raise ValueError("column " + json.dumps(name) + ": " + str(error)) from None
            rows += chunk


# ---- to the engine -----------------------------------------------------------------------------------------


def scalar(name):
    return {"kind": "scalar", "name": name}


NULL = {"kind": "null"}
# A subclass gets the kind of the first class that matches.
KINDS = (
    (bool, "bool"), (int, "int"), (float, "float"), (Decimal, "decimal"), (str, "str"), (bytes, "bytes"),
    (bytearray, "bytes"), (memoryview, "bytes"), (datetime.datetime, "datetime"), (datetime.date, "date"),
    (datetime.time, "time"), (uuid.UUID, "uuid"), (list, "list"), (tuple, "list"), (dict, "dict"),
)
EXACT = dict(KINDS)
MISSING_TYPES = ("NaTType", "NAType")


def kind_of(cls, path):
    exact = EXACT.get(cls)
    if exact:
        return exact
    for base, kind in KINDS:
        if issubclass(cls, base):
            return kind
    is_duration = issubclass(cls, datetime.timedelta) or cls.__name__ == "timedelta64"
    hint = ": use a number of seconds or a text" if is_duration else ""
    raise BadResult(path + " contains a value of type " + type_name(cls) + ", which has no SQL type" + hint)


def python_values(values, path):
    """Replaces values of libraries by Python's own values."""
    foreign = {
        cls for cls in set(map(type, values))
        if cls not in EXACT and (cls.__module__.partition(".")[0] in ("numpy", "pandas") or cls.__name__ in MISSING_TYPES)
    }
    if not foreign:
        return values

    def own(value):
        cls = type(value)
        if cls not in foreign:
            return value
        if cls.__name__ in MISSING_TYPES:
            return None
        if cls.__name__ == "Timestamp":
            if value.nanosecond:
                raise with_nanoseconds(path, value)
            return value.to_pydatetime()
        if cls.__name__ == "datetime64":
            if value != value:
                return None
            # datetime64[Y], [M], [W] and [D] are dates.
            kept = value.astype("datetime64[D]" if value.dtype.name[-2] in "YMWD" else "datetime64[us]")
            if kept != value:
                raise with_nanoseconds(path, value)
            return kept.tolist()
        if cls.__name__ == "timedelta64":
            return value
        return value.tolist() if hasattr(value, "tolist") else value

    return [own(value) for value in values]


def with_nanoseconds(path, value):
    return BadResult(path + " contains the time " + str(value) + " with nanoseconds: a table keeps microseconds, so round it")


def encoder_of(values, path):
    """The type of a column, the function that encodes its values for JSON or None, and the values."""
    values = python_values(values, path)
    classes = set(map(type, values))
    classes.discard(type(None))
    kinds = {kind_of(cls, path) for cls in classes}
    if not kinds:
        return NULL, None, values
    present = values if type(None) not in set(map(type, values)) else [value for value in values if value is not None]
    mix = KIND_MIXES.get(frozenset(kinds))
    if mix is None:
        named = " and ".join(sorted(type_name(cls) for cls in classes))
        raise BadResult(path + " mixes values of type " + named)
    tree, encode = mix(present, path)
    return tree, encode, values


def whole_numbers(present, path):
    low, high = min(present), max(present)
    if -(1 << 63) <= low and high < 1 << 63:
        fits = -(1 << 31) <= low and high < 1 << 31
        return dict(scalar("BIGINT"), isSmall=fits), None
    if abs(low) < 10**DECIMAL_DIGITS and abs(high) < 10**DECIMAL_DIGITS:
        return scalar("HUGEINT"), str
    raise BadResult(path + " contains a whole number of more than 38 digits")


def is_exact_float(value):
    """Whether a whole number or a decimal is the same number as a float."""
    try:
        nearest = float(value)
    except OverflowError:
        return False
    return int(nearest) == value if isinstance(value, int) else not value.is_finite() or Decimal(repr(nearest)) == value


def floats(present, path):
    if set(map(type, present)) != {float}:
        for value in present:
            if isinstance(value, (int, Decimal)) and not is_exact_float(value):
                number = "the number " + str(value) if abs(value) < 10**100 else "a number of more than 100 digits"
                raise BadResult(path + " contains floats and " + number + ", which no float can hold: use Decimal for all values")
    finite = all(map(math.isfinite, present))
    if not finite:
        # JSON cannot represent infinity and NaN.
        return dict(scalar("DOUBLE"), isText=True), lambda value: repr(float(value))
    return scalar("DOUBLE"), None if set(map(type, present)) == {float} else float


def exact_decimals(present, path):
    digits = scale = 0
    for value in present:
        value = Decimal(value)
        sign, figures, exponent = value.as_tuple()
        if not isinstance(exponent, int):
            raise BadResult(path + " contains the decimal " + str(value) + ", which a table cannot store")
        scale = max(scale, -exponent)
        digits = max(digits, len(figures) + exponent if any(figures) else 0)
    precision = max(digits, 0) + scale
    if precision > DECIMAL_DIGITS:
        raise BadResult(path + " needs " + str(precision) + " digits for its decimals: the limit is 38")
    tree = {"kind": "decimal", "precision": max(precision, 1), "scale": scale}
    return tree, lambda value: format(Decimal(value), "f")


def texts(present, path):
    return scalar("VARCHAR"), None if set(map(type, present)) == {str} else str.__str__


def blobs(present, path):
    return scalar("BLOB"), lambda value: ("\\x" + bytes(value).hex("|").replace("|", "\\x")) if len(value) else ""


def moments(present, path):
    aware = {isinstance(value, datetime.datetime) and value.tzinfo is not None for value in present}
    if aware == {True}:
        return scalar("TIMESTAMP WITH TIME ZONE"), lambda value: value.astimezone(UTC).isoformat(" ")
    if True in aware:
        raise BadResult(path + " mixes times with and without a time zone")
    return scalar("TIMESTAMP"), lambda value: value.isoformat(" ") if isinstance(value, datetime.datetime) else value.isoformat()


def clocks(present, path):
    if any(value.tzinfo is not None for value in present):
        raise BadResult(path + " contains a time of day with a time zone, which a table cannot store")
    return scalar("TIME"), datetime.time.isoformat


def lists(present, path):
    tree, encode, _ = encoder_of([item for items in present for item in items], path + "[]")
    if not encode:
        return {"kind": "list", "element": tree}, (lambda items: python_values(list(items), path))
    return {"kind": "list", "element": tree}, (
        lambda items: [None if item is None else encode(item) for item in python_values(list(items), path)]
    )


def structs(present, path):
    names = {}
    for value in present:
        names.update(dict.fromkeys(value))
    if not names:
        raise BadResult(path + " contains only empty dicts: a STRUCT needs a field")
    checked_names(names, "a field of " + path)
    fields, encoders = [], {}
    for name in names:
        tree, encode, _ = encoder_of([value.get(name) for value in present], path + "." + name)
        fields.append({"name": name, "type": tree})
        encoders[name] = encode or same

    def encode(value):
        items = dict(zip(value, python_values(list(value.values()), path)))
        return {name: None if items.get(name) is None else encoders[name](items[name]) for name in names}

    return {"kind": "struct", "fields": fields}, encode


KIND_MIXES = {
    frozenset(kinds.split()): encoder
    for kinds, encoder in {
        "bool": lambda present, path: (scalar("BOOLEAN"), None),
        "int": whole_numbers, "float": floats, "float int": floats, "decimal": exact_decimals,
        "decimal int": exact_decimals, "decimal float": floats, "decimal float int": floats, "str": texts,
        "bytes": blobs, "datetime": moments, "date datetime": moments, "time": clocks, "list": lists, "dict": structs,
        "date": lambda present, path: (scalar("DATE"), datetime.date.isoformat),
        "uuid": lambda present, path: (scalar("UUID"), str),
    }.items()
}


def checked_names(names, kind):
    known = {}
    for name in names:
        if not isinstance(name, str) or not name:
            raise BadResult("the name of " + kind + " is " + repr(name)[:100] + ": use a text")
        other = known.setdefault(name.lower(), name)
        if other != name:
            raise BadResult("two columns are named " + json.dumps(other) + " and " + json.dumps(name))


def write_columns(columns, path):
    """Writes columns of equal length as JSON lines, and returns a description of the file.

    Each line has a chunk of every column.
    """
    checked_names(columns, "a column")
    if not columns:
        raise BadResult("result has no columns")
    named = []
    for name, values in columns.items():
        tree, encode, values = encoder_of(values, "column " + json.dumps(name, ensure_ascii=False))
        if encode:
            values = [None if value is None else encode(value) for value in values]
        named.append((tree, values))
    rows = len(named[0][1])
    size = max(1, min(CHUNK_ROWS, CHUNK_CELLS // len(named)))
    longest = 0
    dumps = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), check_circular=False).encode
    try:
        with open(path, "wb") as file:
            for start in range(0, rows, size):
                chunk = {str(n): values[start : start + size] for n, (_, values) in enumerate(named)}
                line = dumps(chunk).encode("utf-8") + b"\n"
                longest = max(longest, len(line))
                file.write(line)
    except UnicodeEncodeError as error:
        raise BadResult("a text of the result is not valid Unicode: it contains " + repr(error.object[error.start])) from None
    types = [{"name": name, "type": tree} for name, (tree, _) in zip(columns, named)]
    return {"columns": types, "rows": rows, "longestBytes": longest}


def columns_of_rows(rows):
    """Turns a list of dicts into a dict of columns. A key that a row lacks becomes None."""
    names = {}
    for row in rows:
        if row.keys() != names.keys():
            names.update(dict.fromkeys(row))
    return {name: [row.get(name) for row in rows] for name in names}


def checked_columns(columns):
    """Turns every column of a dict into a list. Raises BadResult if the lengths differ."""
    lists_of = {}
    for name, values in columns.items():
        # numpy would give nanoseconds as whole numbers.
        is_time = getattr(getattr(values, "dtype", None), "kind", None) in ("m", "M")
        if hasattr(values, "tolist") and not is_time:
            values = values.tolist()
        if isinstance(values, (str, bytes, dict)) or not hasattr(values, "__iter__"):
            raise BadResult(
                "result is a dict, so column " + json.dumps(str(name)) + " must be a list, not " + type_name(values)
            )
        lists_of[name] = list(values)
    lengths = {name: len(values) for name, values in lists_of.items()}
    if len(set(lengths.values())) > 1:
        raise BadResult(
            "the columns of result differ in length: " + ", ".join(f"{name} {length}" for name, length in lengths.items())
        )
    return lists_of
