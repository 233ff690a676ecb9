"""The process that runs one `pipeline.py`.

It confines itself, waits for its job, executes the job and reports to the runner.

It sends lines of JSON to the runner. `{"call": n, ...}` is a request, which `{"answer": n, ...}` answers. All
other lines are reports. The runner validates every line, because user code shares this process.
"""

import ast
import builtins
import errno
import io
import json
import linecache
import os
import sys
import threading
import traceback

import confine
import queries
import values

SOURCE = "pipeline.py"
# A file in the process's own directory. With bubblewrap, the file exists already and cannot be removed.
RESULT = ".result"
MESSAGE_CHARACTERS = 16_384
TRACEBACK_FRAMES = 20
CAUSES_SHOWN = 5
CAUSES_FOLLOWED = 100
READ_AGAIN_CHARACTERS = 1_000_000
LIBRARY = "<python>/"


class Channel:
    """Both directions of the pipe to the runner, on descriptors that print() and input() do not use."""

    def __init__(self, incoming):
        # The runner has sent nothing after the first line, so the other reader has not consumed a part of it.
        self.incoming = os.fdopen(os.dup(incoming.fileno()), "rb")
        self.outgoing = os.fdopen(os.dup(1), "wb", buffering=0)
        os.dup2(2, 1)
        self.writing = threading.Lock()
        self.calling = threading.RLock()
        self.calls = 0

    def send(self, message):
        line = memoryview(json.dumps(message, default=str).encode("utf-8", "replace") + b"\n")
        with self.writing:
            while line:
                line = line[self.outgoing.write(line):]

    def receive(self):
        line = self.incoming.readline()
        if not line:
            # The runner is gone.
            os._exit(0)
        return json.loads(line)

    def call(self, method, **arguments):
        """Makes one call at a time, from any thread."""
        with self.calling:
            self.calls += 1
            self.send({"call": self.calls, "method": method, **arguments})
            answer = self.receive()
            if "error" in answer:
                raise PipelineError(answer["error"])
            return answer["value"]


class PipelineError(Exception):
    """The reason why the service could not execute a call. The text is complete without the error's type."""

    __module__ = "sluice"


class Library:
    """The directories of Python and its packages. Texts for users name files relative to them."""

    def __init__(self):
        roots = {os.path.dirname(os.__file__), *sys.path}
        # The longest root comes first, because packages are within the library.
        self.roots = sorted((root.rstrip("/") + "/" for root in roots if root.startswith("/")), key=len, reverse=True)

    def named(self, text):
        if "/" in text:
            for root in self.roots:
                text = text.replace(root, LIBRARY)
        return text


class Log:
    """Writes the output of the pipeline to the log of its run, within the limits of that log."""

    def __init__(self, channel, limits):
        self.library = Library()
        self.channel = channel
        self.lines = limits["lines"]
        self.bytes = limits["bytes"]
        self.dropped = 0
        self.lock = threading.Lock()

    def write(self, level, text):
        text = self.library.named(text[:MESSAGE_CHARACTERS])
        with self.lock:
            if self.lines <= 0 or self.bytes < len(text):
                self.dropped += 1
                return
            self.lines -= 1
            self.bytes -= len(text)
        self.channel.send({"log": level, "message": text})


class PublicLog:
    """`log` as pipelines use it: `log.info("read %d rows", n)`."""

    def __init__(self, log):
        self._log = log

    def _write(self, level, message, arguments):
        text = str(message)
        if arguments:
            try:
                text = text % arguments
            except (TypeError, ValueError):
                text = " ".join([text, *map(str, arguments)])
        for line in text.splitlines() or [""]:
            self._log.write(level, line)

    def debug(self, message="", *arguments):
        self._write("debug", message, arguments)

    def info(self, message="", *arguments):
        self._write("info", message, arguments)

    def warn(self, message="", *arguments):
        self._write("warn", message, arguments)

    warning = warn

    def error(self, message="", *arguments):
        self._write("error", message, arguments)


class Printed(io.TextIOBase):
    """Turns standard output or standard error into lines of the log."""

    def __init__(self, log, level):
        self._log = log
        self._level = level
        self._unfinished = ""
        self._lock = threading.RLock()

    encoding = "utf-8"
    errors = "replace"

    def writable(self):
        return True

    def fileno(self):
        # Libraries that write past Python use this descriptor. It leads to the log too.
        return 2

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError("write() argument must be str, not " + type(text).__name__)
        with self._lock:
            *lines, rest = (self._unfinished + text).split("\n")
            for line in lines:
                self._log.write(self._level, line)
            if len(rest) > MESSAGE_CHARACTERS:
                self._log.write(self._level, rest)
                rest = ""
            self._unfinished = rest
        return len(text)

    def end_line(self):
        with self._lock:
            if self._unfinished:
                self._log.write(self._level, self._unfinished)
            self._unfinished = ""


class Relation:
    """The rows of one SELECT. The engine computes them on request."""

    __module__ = "sluice"

    def __init__(self, channel, log, number, columns, line):
        self._channel = channel
        self._log = log
        self._number = number
        self._columns = columns
        self._line = line
        self._returned = 0

    @property
    def columns(self):
        return [column["name"] for column in self._columns]

    @property
    def types(self):
        return [column["text"] for column in self._columns]

    def _fetch(self, form, read):
        with self._channel.calling:
            # The file exists until the next fetch.
            return read(self._channel.call("fetch", relation=self._number, form=form)["path"])

    def rows(self):
        """Every row as a dict."""
        return self._fetch("json", lambda path: values.read_rows(path, self._columns))

    def fetchall(self):
        """Every row as a tuple."""
        return [tuple(row.values()) for row in self.rows()]

    def fetchone(self):
        """The next row as a tuple; None after the last one."""
        rows = self.fetchmany(1)
        return rows[0] if rows else None

    def fetchmany(self, size=1):
        if not hasattr(self, "_all"):
            self._all = self.fetchall()
        rows = self._all[self._returned : self._returned + size]
        self._returned += len(rows)
        return rows

    def arrow(self):
        """A pyarrow.Table."""
        parquet = imported("pyarrow.parquet", ".arrow()")
        return self._fetch("parquet", lambda path: parquet.read_table(path, memory_map=False, use_threads=False))

    def df(self):
        """A pandas.DataFrame."""
        pandas = imported("pandas", ".df()")
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            frame = pandas.DataFrame(self.rows(), columns=self.columns)
            table = None
        else:
            table = self.arrow()
            frame = table.to_pandas()
        for column in self._columns:
            name = column["name"]
            is_whole = column["type"].get("name") in ("BIGINT", "UBIGINT")
            if is_whole and frame[name].dtype.kind == "f" or table is not None and has_nested_gaps(table.column(name)):
                warn_of_floats(self._log, name)
        return frame

    def pl(self):
        """A polars.DataFrame."""
        polars = imported("polars", ".pl()")
        return self._fetch("parquet", lambda path: polars.read_parquet(path, use_pyarrow=False))

    fetchdf = to_df = df
    fetch_arrow_table = to_arrow_table = arrow

    def __iter__(self):
        return iter(self.fetchall())

    def __repr__(self):
        return "<relation " + ", ".join(f"{c['name']} {c['text']}" for c in self._columns) + ">"


def imported(module, method):
    try:
        return __import__(module, fromlist=["_"])
    except ImportError as error:
        name = module.partition(".")[0]
        if getattr(error, "name", None) not in (name, module):
            raise
        raise PipelineError(method + " needs " + name + ", which is not installed for this Python") from None


class Connection:
    """`duckdb_conn`: the engine under the name that authors know."""

    __module__ = "sluice"

    def __init__(self, sql):
        self._sql = sql
        self._last = None

    def sql(self, text, params=None):
        return self._sql(text, params)

    query = sql

    def execute(self, text, params=None):
        self._last = self._sql(text, params)
        return self

    def _relation(self):
        if self._last is None:
            raise PipelineError("no result to fetch: call execute() first")
        return self._last

    def __getattr__(self, name):
        if name in ("rows", "fetchall", "fetchone", "fetchmany", "arrow", "df", "pl", "fetchdf", "fetch_arrow_table", "columns", "types"):
            return getattr(self._relation(), name)
        raise AttributeError("duckdb_conn has no " + name + ": use sql() or execute()")

    def __repr__(self):
        return "<connection to the engine>"


def parameter(value):
    """The type and text of a query parameter; None for NULL."""
    if value is None:
        return None
    try:
        tree, encode, (own,) = values.encoder_of([value], "the parameter")
    except values.BadResult as error:
        raise PipelineError(str(error)) from None
    if tree["kind"] in ("list", "struct"):
        raise PipelineError("a parameter of a query must be one value, not a " + values.type_name(value))
    text = encode(own) if encode else own
    if isinstance(text, bool):
        text = "true" if text else "false"
    name = tree["name"] if tree["kind"] == "scalar" else f"DECIMAL({tree['precision']},{tree['scale']})"
    return {"type": name, "text": repr(text) if isinstance(text, float) else str(text)}


def parameters(params):
    if params is None:
        return []
    if isinstance(params, dict):
        return {str(name): parameter(value) for name, value in params.items()}
    if isinstance(params, (str, bytes)) or not hasattr(params, "__iter__"):
        raise PipelineError("params must be a list or a dict, not " + values.type_name(params))
    return [parameter(value) for value in params]


def own_line():
    """The line of pipeline.py that is being executed; None outside of pipeline.py."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename != SOURCE:
        frame = frame.f_back
    return frame and frame.f_lineno


class Execution:
    """One run of `pipeline.py`."""

    def __init__(self, channel, job, own):
        self.channel = channel
        self.job = job
        self.own = own
        self.log = Log(channel, job["logLimits"])
        self.relations = {}
        self.source = ""

    def names(self):
        """The global names of the pipeline."""
        variables = self.job["variables"]
        call = self.channel.call

        def ref(name):
            if not isinstance(name, str):
                raise PipelineError("ref() takes one name in quotes")
            return call("ref", name=name)

        def landing_zone(name, *, pattern=None):
            if not isinstance(name, str) or not isinstance(pattern, (str, type(None))):
                raise PipelineError("landing_zone() takes one name in quotes, and pattern='...' if needed")
            return call("landing_zone", name=name, pattern=pattern)

        def sql(text, params=None):
            if not isinstance(text, str):
                raise PipelineError("sql() takes the text of a query, not " + values.type_name(text))
            relation = call("relate", sql=text, params=parameters(params))
            return Relation(self.channel, self.log, relation["relation"], relation["columns"], own_line())

        return {
            "__name__": "__main__",
            "__file__": SOURCE,
            "__builtins__": builtins,
            "ref": ref,
            "landing_zone": landing_zone,
            "sql": sql,
            "duckdb_conn": Connection(sql),
            "log": PublicLog(self.log),
            "config": variables["config"],
            "this": variables["this"],
            "run_started_at": variables["run_started_at"],
            "watermark_value": variables["watermark_value"],
            **{
                "is_" + strategy: (lambda is_strategy=strategy == variables["strategy"]: is_strategy)
                for strategy in variables["strategies"]
            },
        }

    def run(self):
        out, err = Printed(self.log, "info"), Printed(self.log, "info")
        sys.stdout = sys.__stdout__ = out
        sys.stderr = sys.__stderr__ = err
        names = self.names()
        try:
            exec(self.compiled(), names)
            answer = self.result_of(names)
            answer["result"].setdefault("line", self.result_line())
        except values.BadResult as error:
            answer = {"failed": {"line": self.result_line(), "message": str(error)}}
        except BaseException as error:
            answer = {"failed": self.failure(error)}
        out.end_line()
        err.end_line()
        if self.log.dropped:
            self.channel.send({"dropped": self.log.dropped})
        self.channel.send(answer)

    def compiled(self):
        with open(self.job["source"], encoding="utf-8") as file:
            source = self.source = file.read()
        linecache.cache[SOURCE] = (len(source), None, source.splitlines(True), SOURCE)
        return compile(source, SOURCE, "exec", dont_inherit=True)

    def check(self):
        """Reports whether the source compiles, and which queries its text contains. Runs none of it."""
        try:
            self.compiled()
        except BaseException as error:
            column = error.offset if isinstance(error, SyntaxError) and error.filename == SOURCE else None
            failure = self.failure(error, writes_traceback=False)
            self.channel.send({"checked": {**failure, "column": column or None}, "queries": []})
            return
        try:
            found = queries.queries_in(self.source)
        except (RecursionError, MemoryError, SyntaxError, ValueError):
            # A source that is nested too deeply for this search still compiles.
            found = []
        self.channel.send({"checked": None, "queries": found})

    # The result ---------------------------------------------------------------------------------------------

    def result_of(self, names):
        if "result" not in names:
            raise values.BadResult("the source did not set result")
        result = names["result"]
        if isinstance(result, Connection) and result._last is not None:
            result = result._last
        if isinstance(result, Relation):
            return {"result": {"kind": "relation", "relation": result._number, "line": result._line}}
        if isinstance(result, list):
            other = next((row for row in result if not isinstance(row, dict)), None)
            if other is not None or None in result:
                raise values.BadResult("result is a list, so each of its items must be a dict, not " + values.type_name(other))
            return self.columns(values.columns_of_rows(result))
        if isinstance(result, dict):
            return self.columns(values.checked_columns(result))
        table = is_a(result, "pyarrow", "Table")
        if table:
            return self.arrow(result)
        if is_a(result, "pandas", "DataFrame"):
            return self.pandas(result)
        if is_a(result, "polars", "DataFrame"):
            return self.polars(result)
        raise values.BadResult(
            "result is of type " + values.type_name(result) + ": use the result of sql(), a list of dicts,"
            " a dict of columns, a pyarrow Table, or a pandas or polars DataFrame"
        )

    def result_line(self):
        """The line that sets `result`, if exactly one line does; otherwise None."""
        lines = set()
        try:
            nodes = [ast.parse(self.source)] if len(self.source) <= READ_AGAIN_CHARACTERS else []
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        # A function with `global result` may set it. Whether the function is called is unknown here.
        if any(isinstance(node, ast.Global) and "result" in node.names for tree in nodes for node in ast.walk(tree)):
            return None
        while nodes:
            node = nodes.pop()
            if isinstance(node, ast.Name) and node.id == "result" and isinstance(node.ctx, ast.Store):
                lines.add(node.lineno)
            # A function may set a local variable of the same name.
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
                nodes.extend(ast.iter_child_nodes(node))
        return lines.pop() if len(lines) == 1 else None

    def columns(self, columns):
        path = os.path.join(self.own, RESULT)
        if not columns or not any(columns.values()):
            return {"result": {"kind": "empty", "columns": [str(name) for name in columns]}}
        return {"result": {"kind": "json", **values.write_columns(columns, path)}}

    def arrow(self, table):
        import pyarrow
        import pyarrow.parquet as parquet

        nulls = []
        for at, field in enumerate(table.schema):
            if pyarrow.types.is_null(field.type):
                nulls.append(field.name)
            refused_by_parquet(field.name, field.type, pyarrow.types)
            # A table keeps microseconds of a time of day. Arrow refuses to lose nanoseconds.
            if field.type == pyarrow.time64("ns"):
                try:
                    table = table.set_column(at, field.name, table.column(at).cast(pyarrow.time64("us")))
                except pyarrow.ArrowInvalid as error:
                    raise values.BadResult("column " + json.dumps(field.name) + ": " + str(error)) from None
        values.checked_names(list(table.column_names), "a column")
        if len(set(table.column_names)) < len(table.column_names):
            raise values.BadResult("two columns of result have the same name")
        try:
            parquet.write_table(
                table, os.path.join(self.own, RESULT), coerce_timestamps="us", allow_truncated_timestamps=False
            )
        except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError) as error:
            raise values.BadResult("result: " + str(error)) from None
        return {"result": {"kind": "parquet", "rows": table.num_rows, "nullColumns": nulls}}

    def pandas(self, frame):
        frame = with_index(frame, self.log)
        names = list(frame.columns)
        values.checked_names(names, "a column")
        if len(set(names)) < len(names):
            raise values.BadResult("two columns of result have the same name")
        for name, series in frame.items():
            if has_floats_for_gaps(series):
                warn_of_floats(self.log, name)
        try:
            import pyarrow
        except ImportError:
            return self.columns(
                {name: series.astype(object).where(series.notna(), None).tolist() for name, series in frame.items()}
            )
        try:
            return self.arrow(pyarrow.Table.from_pandas(frame, preserve_index=False))
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError) as error:
            raise values.BadResult("result: " + str(error)) from None
        except OverflowError:
            # The error of pyarrow names no column.
            for name, series in frame.items():
                if series.dtype == object:
                    whole = next((value for value in series if isinstance(value, int) and not -(2**63) <= value < 2**63), None)
                    if whole is not None:
                        raise values.BadResult(
                            "column " + json.dumps(name) + " contains the number " + str(whole) + " beyond 64 bits: use Decimal for all values"
                        ) from None
            raise

    def polars(self, frame):
        import polars

        nulls = [name for name, kind in frame.schema.items() if kind == polars.Null]
        for name, kind in frame.schema.items():
            if kind == polars.Duration:
                raise values.BadResult(f"column {json.dumps(name)} contains durations, which a table cannot store: use a number of seconds")
            if kind == polars.Object:
                raise values.BadResult(f"column {json.dumps(name)} contains Python objects, which a table cannot store")
            for part in polars_parts(kind):
                if is_nanoseconds(part) and part is not kind:
                    raise values.BadResult(f"column {json.dumps(name)} has times with nanoseconds in nested values: cast them to microseconds")
                if str(part) in ("Int128", "UInt128"):
                    # polars writes such numbers as bytes.
                    raise values.BadResult(f"column {json.dumps(name)} is of type {part}: cast it to Decimal(38, 0)")
        values.checked_names(frame.columns, "a column")
        for name in [name for name, kind in frame.schema.items() if is_nanoseconds(kind)]:
            micros = frame[name].dt.cast_time_unit("us")
            lost = frame[name].filter(micros.dt.cast_time_unit("ns") != frame[name])
            if len(lost) > 0:
                raise values.with_nanoseconds("column " + json.dumps(name, ensure_ascii=False), lost[0])
            frame = frame.with_columns(micros)
        frame.write_parquet(os.path.join(self.own, RESULT), use_pyarrow=False)
        return {"result": {"kind": "parquet", "rows": frame.height, "nullColumns": nulls}}

    # Errors -------------------------------------------------------------------------------------------------

    def failure(self, error, writes_traceback=True):
        """The line of pipeline.py where the error happened, and its message. Logs the traceback."""
        own = [frame.lineno for frame in self.frames(error) if frame.filename == SOURCE]
        if isinstance(error, SyntaxError) and error.filename == SOURCE:
            line = error.lineno
        else:
            line = own[-1] if own else self.result_line()
        if writes_traceback and not isinstance(error, SyntaxError):
            trace = self.traceback_of(error)
            if trace:
                self.log.write("error", trace)
        return {"line": line, "message": self.message_of(error)}

    def frames(self, error):
        return [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<sluice")]

    def traceback_of(self, error):
        """The tracebacks of the error and of its causes, in Python's format."""
        parts = []
        link = ""
        # A cause that was never raised has no frames. A chain of causes made by user code may be endless.
        for _ in range(CAUSES_FOLLOWED):
            if error is None or len(parts) == CAUSES_SHOWN:
                break
            frames = self.frames(error)
            if frames:
                trace = "".join(traceback.format_list(frames[-TRACEBACK_FRAMES:]))
                parts.append("Traceback (most recent call last):\n" + trace + self.message_of(error) + link)
            if error.__cause__ is not None:
                error, link = error.__cause__, "\n\nThe above exception was the direct cause of the following exception:\n\n"
            else:
                error = None if error.__suppress_context__ else error.__context__
                link = "\n\nDuring handling of the above exception, another exception occurred:\n\n"
        return "".join(reversed(parts))

    def message_of(self, error):
        if isinstance(error, PipelineError):
            return str(error)
        if isinstance(error, SyntaxError) and error.filename == SOURCE:
            return type(error).__name__ + ": " + str(error.msg)
        if isinstance(error, SystemExit):
            return "SystemExit: the source exited before it set result" if error.code in (None, 0) else "SystemExit: " + str(error.code)
        text = "".join(traceback.format_exception_only(type(error), error)).strip()
        if isinstance(error, MemoryError):
            return text + ": the memory limit is " + self.job["memory"] + " (PYTHON_MEMORY_LIMIT)"
        if isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EPERM) and self.job["isConfined"]:
            return text + " (the sandbox does not allow it)"
        if isinstance(error, OSError) and error.errno == errno.EFBIG:
            return text + " (the sandbox limits the size of a file)"
        if isinstance(error, OSError) and error.errno == errno.ENOSPC and self.job["disk"]:
            return text + ": the limit of the directory is " + self.job["disk"] + " (PYTHON_DISK_LIMIT)"
        # The message of an exception group contains only the number of its exceptions.
        if isinstance(error, getattr(builtins, "BaseExceptionGroup", ())):
            parts = ["".join(traceback.format_exception_only(type(part), part)).strip() for part in error.exceptions[:CAUSES_SHOWN]]
            text += ": " + "; ".join(parts)
        return self.log.library.named(text[:MESSAGE_CHARACTERS])


def is_a(value, module, name):
    """Whether the value has a type of a library, without loading the library."""
    loaded = sys.modules.get(module)
    cls = getattr(loaded, name, None)
    return isinstance(cls, type) and isinstance(value, cls)


def polars_parts(kind):
    """The type and the types within it."""
    yield kind
    for inner in [getattr(kind, "inner", None), *(field.dtype for field in getattr(kind, "fields", None) or [])]:
        if inner is not None:
            yield from polars_parts(inner)


def is_nanoseconds(kind):
    return str(kind).startswith("Datetime(") and kind.time_unit == "ns"


def has_nested_gaps(column):
    """Whether whole numbers of 64 bits within lists or structs have missing values. pandas makes floats of them."""
    import pyarrow

    def has_gaps(values, is_nested):
        kind = values.type
        if pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind):
            return has_gaps(values.flatten(), True)
        if pyarrow.types.is_struct(kind):
            return any(has_gaps(child, True) for child in values.flatten())
        return is_nested and (pyarrow.types.is_int64(kind) or pyarrow.types.is_uint64(kind)) and values.null_count > 0

    return any(has_gaps(chunk, False) for chunk in column.chunks)


def with_index(frame, log):
    """The frame with the named levels of its index as columns."""
    if frame.index.names == [None] and frame.index.dtype.kind not in "iu":
        log.write("warn", "the index of result has no name, so its values are not stored: name it, or use reset_index()")
    levels = [(level, name) for level, name in enumerate(frame.index.names) if name is not None]
    for _, name in levels:
        if name in frame.columns:
            raise values.BadResult("the index and a column of result are both named " + json.dumps(str(name), ensure_ascii=False))
    return frame.reset_index(level=[level for level, _ in levels]) if levels else frame


def warn_of_floats(log, column):
    log.write(
        "warn",
        "column " + json.dumps(column, ensure_ascii=False) + " has whole numbers and missing values: pandas keeps such numbers"
        ' as floats, which are not exact beyond 2**53: use .arrow(), or the dtype "Int64"',
    )


def has_floats_for_gaps(series):
    """Whether a column of floats consists of whole numbers and missing values."""
    if series.dtype.kind != "f" or not series.isna().any():
        return False
    present = series.dropna()
    return len(present) > 0 and bool((present % 1 == 0).all())


# Types of Arrow that stand for a type of the engine. Others would be stored as their inner values.
STORED_EXTENSIONS = ("arrow.uuid", "arrow.json", "arrow.bool8")


def refused_by_parquet(name, kind, types):
    if types.is_duration(kind) or types.is_interval(kind):
        raise values.BadResult(f"column {json.dumps(name)} contains durations, which a table cannot store: use a number of seconds")
    extension = getattr(kind, "extension_name", None)
    if extension is not None and extension not in STORED_EXTENSIONS:
        raise values.BadResult(f"column {json.dumps(name)} is of type {extension}, which a table cannot store: use a text, a number or a time")
    if types.is_decimal(kind) and kind.precision > 38:
        raise values.BadResult(f"column {json.dumps(name)} has decimals of {kind.precision} digits: the limit is 38")


REFUSED = {
    "socket.connect": "the network", "socket.bind": "the network", "socket.sendto": "the network", "socket.getaddrinfo": "the network",
    "socket.gethostbyname": "the network", "socket.gethostbyaddr": "the network", "socket.getnameinfo": "the network",
    "subprocess.Popen": "other processes", "os.system": "other processes", "os.fork": "other processes",
    "os.forkpty": "other processes", "os.exec": "other processes", "os.posix_spawn": "other processes",
    "os.spawn": "other processes", "pty.spawn": "other processes", "os.symlink": "symbolic links",
}


def explain(event, arguments):
    """Explains what the kernel would refuse anyway. This hook gives a message; it is no protection."""
    resource = REFUSED.get(event)
    if resource:
        raise PermissionError(errno.EPERM, "a pipeline cannot use " + resource)
    if event in ("os.kill", "os.killpg") and arguments[0] != os.getpid():
        raise PermissionError(errno.EPERM, "a pipeline cannot send signals to other processes")


def main(incoming, spec):
    channel = Channel(incoming)
    try:
        confine.confine(spec)
    except (confine.Unavailable, OSError, ValueError) as error:
        channel.send({"unavailable": str(error)})
        return
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    if spec["seccomp"]:
        sys.addaudithook(explain)
    try:
        with open(os.path.join(spec["own"], ".probe"), "w") as file:
            file.write("x")
        os.unlink(file.name)
        # Modules that are not imported yet must be readable.
        with open(os.__file__, "rb") as file:
            file.read(1)
    except (OSError, ImportError) as error:
        channel.send({"unavailable": str(error)})
        return
    channel.send({"ready": True})
    job = channel.receive()
    execution = Execution(channel, job, spec["own"])
    if job["kind"] == "check":
        execution.check()
    else:
        execution.run()
    # Remaining user code (threads, exit handlers) must not run any more.
    os._exit(0)
