import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import type { TableName } from '../../../ground/names.ts'
import { RunStatus } from '../../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { until } from '../../../tools/kit/until.ts'
import { isAlive } from '../../core/testing.ts'
import { useRunner } from '../test-runner.ts'
import { runToEnd, startRunner, workDirectoriesOf } from '../testing.ts'
import { stepsHere } from './testing.ts'

setDefaultTimeout(60_000)

// Without Python or a sandbox for it, the rest of the service works, and these tests are skipped.
const isHere = (await stepsHere()).length > 0
const described = describe.skipIf(!isHere)

const { service, runner, aTable, run, publish, failureOf, judgeMain } = await useRunner(
  { RUNNER_CONCURRENCY: '2' },
  'python',
)

/** The result of a SELECT about the table on main. */
async function ask(table: TableName, question: string): Promise<string> {
  const [result] = await judgeMain(table, { q: `select error(coalesce((${question})::varchar, 'NULL'))` })
  return String(result?.error).replace(/^.*?Invalid Input Error: /, '')
}

const typesOf = (table: TableName) =>
  ask(table, "select string_agg(column_type, ',') from (describe from {{ this }})")

described('a pipeline in Python', () => {
  test('a Python pipeline gets its names, logs output and writes its result', async () => {
    const source = aTable()
    await publish(source, 'result = [{"id": n, "name": f"n{n}"} for n in range(3)]')
    const table = aTable()
    const { lines, facts } = await publish(
      table,
      `
print("printed", 1)
print("no newline", end="")
log.info("read %s", "this"); log.warn("careful"); log.error("bad")
assert this == '"default.bronze"."${table.name}"', this
assert run_started_at == "2026-01-02T03:04:05.000Z", run_started_at
assert watermark_value is None
assert (is_incremental(), is_append_only(), is_scd2()) == (False, True, False)
assert config["merge_strategy"] == "append_only" and config["max_retries"] == 2, config
assert config["unique_key"] == []
rows = sql(f"select * from {ref('bronze.${source.name}')} where id > ?", [0])
assert rows.columns == ["id", "name"] and rows.types == ["BIGINT", "VARCHAR"]
assert rows.fetchall() == [(1, "n1"), (2, "n2")]
assert duckdb_conn.execute("select $a as a", {"a": "x"}).fetchone() == ("x",)
result = [{**row, "twice": row["id"] * 2} for row in rows.rows()]
`,
      { 'config.yaml': 'merge_strategy: append_only\nmax_retries: 2' },
    )
    expect(facts).toMatchObject({ rowsWritten: 2n, maxRetries: 2 })
    expect(
      lines.map((line) =>
        line.replace(/\d+ (ms|B)|Python [\d.]+|sandbox: \w+|[\d.]+ kB|(?<=^cost: ).*/g, 'N'),
      ),
    ).toEqual([
      'watermark_value is none: the configuration names no watermark_column',
      `reads default.bronze.${source.name}: 3 rows in 1 file`,
      'pipeline.py runs on N, N',
      'printed 1',
      'read this',
      'careful',
      'bad',
      'no newline',
      'ran pipeline.py in N',
      '2 rows, N of Parquet in N',
      "committed to the run's branch in N",
      'attempt 1 done in N',
      'cost: N',
    ])
    expect(await ask(table, 'select sum(twice) from {{ this }}')).toBe('6')
    await until(
      () => workDirectoriesOf(runner),
      (paths) => paths.length === 0,
    )
  })

  test('a Python pipeline reports the cost of its own process, too', async () => {
    const { facts } = await run(
      aTable(),
      `
import time
while time.process_time() < 1: pass
text = "x" * 200_000_000
open("own.txt", "w").write(text[:30_000_000])
result = [{"a": 1}]
`,
    )
    expect(facts.cost?.cpuSeconds).toBeGreaterThan(1)
    expect(Number(facts.cost?.bytesWritten)).toBeGreaterThan(30_000_000)
    expect(Number(facts.cost?.peakMemoryBytes)).toBeGreaterThan(200_000_000)
  })

  test('a Python pipeline is judged by its quality tests', async () => {
    const { facts } = await run(aTable(), 'result = [{"a": None}, {"a": 1}]', {
      'tests/quality/no-nulls.sql': 'select * from {{ this }} where a is null',
    })
    expect(facts.tests).toMatchObject([{ name: 'no-nulls', passed: false, value: 1n }])
  })

  test('a Python pipeline reads landing zones by SQL and as files', async () => {
    const zone = await service.zone('python-drops')
    await service.upload(zone, 'python-drops', 'a.csv', 'id\n1\n2\n')
    await service.upload(zone, 'python-drops', 'b.csv', 'id\n3\n')
    for (const name of ['"python-drops"', '"python-" + "drops"']) {
      const { facts } = await publish(
        aTable(),
        `
import glob, os
zone = landing_zone(${name})
files = sorted(glob.glob(zone))
assert [os.path.basename(f) for f in files] == ["a.csv", "b.csv"], files
assert open(files[1]).read() == "id\\n3\\n"
result = sql(f"select sum(id) as total from read_csv_auto('{zone}')")
`,
      )
      expect(facts.landingFileIds.length).toBe(2)
    }
    expect(await failureOf('landing_zone("none")')).toBe(
      'executing: pipeline.py line 1: landing zone none does not exist in default',
    )
  })

  test('a Python pipeline reads tables whose names it computes', async () => {
    const [a, b, table] = [aTable(), aTable(), aTable()]
    await publish(a, 'result = [{"n": 1}]')
    await publish(b, 'result = [{"n": 2}]')
    await publish(
      table,
      `
total = 0
for name in ("${a.name}", "${b.name}", "${a.name}"):
    total += sql("select sum(n) from " + ref("bronze." + name)).fetchone()[0]
result = [{"total": total}]`,
    )
    expect(await ask(table, 'select total from {{ this }}')).toBe('4')
  })

  test('a Python pipeline sees its own table and its watermark', async () => {
    const table = aTable()
    const config = { 'config.yaml': 'merge_strategy: incremental\nunique_key: id\nwatermark_column: day' }
    const source = `
import datetime
if watermark_value is None:
    result = [{"id": 1, "day": datetime.date(2024, 1, 1)}]
else:
    assert is_incremental() and watermark_value == "2024-01-01", watermark_value
    result = sql(f"select id + 1 as id, day + 1 as day from {this}")`
    await publish(table, source, config)
    await publish(table, source, config)
    expect(await ask(table, 'select list((id, day::varchar) order by id) from {{ this }}')).toBe(
      '[(1, 2024-01-01), (2, 2024-01-02)]',
    )
  })

  test('a watermark with a quote is refused as SQL and works as a parameter', async () => {
    const table = aTable()
    const config = { 'config.yaml': 'merge_strategy: append_only\nwatermark_column: a' }
    const rows = "(select unnest(['z\\' or true or \\'a', 'zz']) as a)".replaceAll("\\'", "''")
    await publish(table, `result = sql("""select a from ${rows} limit 1""")`, config)
    const text = `result = sql(f"""select a from ${rows} where a > '{watermark_value}'""")`
    expect(await failureOf(text, config, table)).toContain('watermark_value contains a quote')
    await publish(table, `result = sql("""select a from ${rows} where a > ?""", [watermark_value])`, config)
    expect(await ask(table, 'select list(a order by a) from {{ this }}')).toBe(`['z\\' or true or \\'a', zz]`)
  })

  test('numbers that floats can hold mix with floats', async () => {
    const table = aTable()
    await publish(
      table,
      'from decimal import Decimal\nresult = [{"a": 2.5}, {"a": 9007199254740992}, {"a": Decimal("0.1")}, {"a": -(2**63)}]',
    )
    expect(await ask(table, 'select list(a order by a) from {{ this }}')).toBe(
      '[-9.223372036854776e+18, 0.1, 2.5, 9007199254740992.0]',
    )
  })

  test('annotations at the head of a Python source configure the pipeline', async () => {
    const table = aTable()
    await publish(table, '# @merge_strategy: append_only\nresult = [{"a": 1}]')
    await publish(table, '# @merge_strategy: append_only\nresult = [{"a": 2}]')
    expect(await ask(table, 'select count(*) from {{ this }}')).toBe('2')
  })
})

described('values', () => {
  test('values of every type come back from Python unchanged', async () => {
    const first = aTable()
    await publish(
      first,
      `result = sql(r"""
select * from (values (
  true, 42::integer, 9007199254740993::bigint, 170141183460469231731687303715884105::hugeint::decimal(38,0),
  1.5::double, 12.30::decimal(9,2), 99999999999999999999.123456789::decimal(38,9), 'text ''"\\\\ é 日本 \\n'::varchar,
  date '2024-02-29', timestamp '2024-02-29 10:00:00.123456', timestamptz '2024-02-29 10:00:00+02', time '10:00:00.5',
  '\\x00\\xFFa'::blob, uuid '00000000-0000-0000-0000-000000000001', [1, null, 3], [date '2024-01-01'],
  {'a': 1, 'b': {'c': 12.5::decimal(4,1), 'd': '\\x00'::blob}}, 'nan'::double, '-infinity'::double, null::integer)
) t(bo, i, bi, hu, dou, de, wide, te, da, ts, tz, ti, bl, uu, li, ld, st, na, inf, nu)""")`,
    )
    const second = aTable()
    await publish(
      second,
      `
import datetime, decimal, uuid
(row,) = sql("select * from " + ref("bronze.${first.name}")).rows()
utc = datetime.timezone.utc
assert row == {**row,
  "bo": True, "i": 42, "bi": 9007199254740993, "hu": decimal.Decimal("170141183460469231731687303715884105"), "dou": 1.5,
  "de": decimal.Decimal("12.30"), "wide": decimal.Decimal("99999999999999999999.123456789"),
  "da": datetime.date(2024, 2, 29), "ts": datetime.datetime(2024, 2, 29, 10, 0, 0, 123456),
  "tz": datetime.datetime(2024, 2, 29, 8, tzinfo=utc), "ti": datetime.time(10, 0, 0, 500000), "bl": b"\\x00\\xffa",
  "uu": uuid.UUID(int=1), "li": [1, None, 3], "ld": [datetime.date(2024, 1, 1)],
  "st": {"a": 1, "b": {"c": decimal.Decimal("12.5"), "d": b"\\x00"}}, "inf": float("-inf"), "nu": None}, row
assert row["na"] != row["na"]
assert "日本" in row["te"]
result = [row, {**row, "dou": None, "st": None, "ts": None}]`,
    )
    expect(await typesOf(second)).toBe(
      'BOOLEAN,BIGINT,BIGINT,DECIMAL(36,0),DOUBLE,DECIMAL(4,2),DECIMAL(29,9),VARCHAR,DATE,TIMESTAMP,' +
        'TIMESTAMP WITH TIME ZONE,TIME,BLOB,UUID,BIGINT[],DATE[],' +
        'STRUCT(a BIGINT, b STRUCT(c DECIMAL(3,1), d BLOB)),DOUBLE,DOUBLE,VARCHAR',
    )
    const same =
      'bo, i, bi, hu, dou, de, wide, te, da, ts, tz, ti, bl, uu, li::varchar, ld::varchar, st.a, st.b.c, st.b.d, na, inf, nu::varchar'
    expect(
      await ask(
        second,
        `select count(*) from (select ${same} from {{ this }} where dou is not null intersect select ${same} from {{ ref('bronze.${first.name}') }})`,
      ),
    ).toBe('1')
  })

  test('a column takes the type of the table if its values fit', async () => {
    const table = aTable()
    const appending = { 'config.yaml': 'merge_strategy: append_only' }
    await publish(
      table,
      'result = sql("select 1::integer as i, 1.5::double as d, 12.50::decimal(9,2) as m, date \'2024-01-01\' as t, [1::bigint] as l")',
      appending,
    )
    await publish(table, 'result = [{"i": 2, "d": 3, "m": None, "t": None, "l": None}]', appending)
    await publish(table, 'import decimal\nresult = [{"i": 3, "m": decimal.Decimal("7.5")}]', appending)
    expect(await typesOf(table)).toBe('INTEGER,DOUBLE,DECIMAL(9,2),DATE,BIGINT[]')
    expect(await ask(table, "select sum(i) || ' ' || sum(d) || ' ' || sum(m) from {{ this }}")).toBe(
      '6 4.5 20.00',
    )
  })

  test('Python reads and writes a million rows of three columns', async () => {
    const [source, table] = [aTable(), aTable()]
    await publish(
      source,
      `result = sql("select range as id, range * 0.5::double as value, 'name ' || range as name from range(1000000)")`,
    )
    const { facts, lines } = await publish(
      table,
      `result = sql("from " + ref("bronze.${source.name}")).rows()`,
    )
    expect(facts.rowsWritten).toBe(1_000_000n)
    const name = source.name
    expect(
      await ask(table, `select count(*) from (from {{ this }} intersect from {{ ref('bronze.${name}') }})`),
    ).toBe('1000000')
    process.stdout.write(`  1,000,000 rows of 3 columns: ${lines.find((line) => line.startsWith('ran'))}\n`)
  })

  test('a dict of columns is a result, and no rows empty a table', async () => {
    const table = aTable()
    await publish(table, 'result = {"a": [1, 2], "b": ("x", None)}')
    expect(await ask(table, 'select count(b) from {{ this }}')).toBe('1')
    await publish(table, 'result = []')
    expect(await ask(table, 'select count(*) from {{ this }}')).toBe('0')
    expect(await typesOf(table)).toBe('BIGINT,VARCHAR')
    expect(await failureOf('result = []')).toMatch(
      /result has no rows and no types, and the table does not exist yet/,
    )
  })
})

described('a failed Python run', () => {
  test.each([
    ['x = 1\nresult = 1 / 0', 'pipeline.py line 2: ZeroDivisionError: division by zero'],
    ['def f():\n  return {}["a"]\n\nresult = f()', "pipeline.py line 2: KeyError: 'a'"],
    [
      'import json\njson.loads("{")',
      /^pipeline.py line 2: json.decoder.JSONDecodeError: Expecting property name/,
    ],
    ['x = 1\nx = = 2', 'pipeline.py line 2: SyntaxError: invalid syntax'],
    ['x = 1', 'pipeline.py: the source did not set result'],
    ['result = 5', /^pipeline.py line 1: result is of type int: use the result of sql\(\), a list of dicts/],
    ['class Own: pass\nresult = Own()', /^pipeline.py line 2: result is of type Own: use/],
    ['result = None', /result is of type NoneType/],
    // If two lines set `result`, the error names no line. A function's own `result` does not count.
    ['result = 1\nresult = 2', /^pipeline.py: result is of type int/],
    ['def f():\n  result = 1\nf()\nfor result in "ab": pass', /^pipeline.py line 4: result is of type str/],
    ['result = None\ndef f():\n  global result\n  result = 5\nf()', /^pipeline.py: result is of type int/],
    // Exception groups exist since Python 3.11.
    [
      'raise ExceptionGroup("two", [ValueError("a"), KeyError("b")])',
      /^pipeline.py line 1: (.*ValueError: a; KeyError: 'b'|NameError.*ExceptionGroup.*)$/,
    ],
    ['result = [1]', 'pipeline.py line 1: result is a list, so each of its items must be a dict, not int'],
    ['result = {"a": 1}', 'pipeline.py line 1: result is a dict, so column "a" must be a list, not int'],
    ['result = {"a": [1], "b": []}', 'pipeline.py line 1: the columns of result differ in length: a 1, b 0'],
    ['result = [{"a": 1}, {"a": "x"}]', 'pipeline.py line 1: column "a" mixes values of type int and str'],
    [
      'result = [{"a": object()}]',
      'pipeline.py line 1: column "a" contains a value of type object, which has no SQL type',
    ],
    [
      'result = [{"a": 2.5}, {"a": 9007199254740993}]',
      'pipeline.py line 1: column "a" contains floats and the number 9007199254740993, which no float can hold: use Decimal for all values',
    ],
    [
      'result = {"a": [2.5, -(2**63) + 1]}',
      /column "a" contains floats and the number -9223372036854775807,/,
    ],
    [
      'result = [{"a": {"b": [0.5, 10**400]}}]',
      /column "a"\.b\[\] contains floats and a number of more than 100 digits,/,
    ],
    [
      'from decimal import Decimal\nresult = [{"a": 0.5}, {"a": Decimal("1234567890.123456789")}]',
      /column "a" contains floats and the number 1234567890.123456789,/,
    ],
    ['result = [{1: 2}]', 'pipeline.py line 1: the name of a column is 1: use a text'],
    ['result = [{"a": 1, "A": 2}]', 'pipeline.py line 1: two columns are named "a" and "A"'],
    [
      'result = [{"a": 10**40}]',
      'pipeline.py line 1: column "a" contains a whole number of more than 38 digits',
    ],
    ['result = [{"a": "\\ud800"}]', /a text of the result is not valid Unicode/],
    [
      '\nsql("select * from nothing")',
      /^pipeline.py line 2: nothing is a bare table name, which a run cannot read: write sql\("... " \+ ref\('layer.nothing'\)\)/,
    ],
    ['sql("""select\n1 as a,\nfro""")', /^pipeline.py line 1: Binder Error: .* \(line 3 of the query\)$/],
    ['sql("drop table x; select 1")', 'pipeline.py line 1: one SELECT statement is expected, not 2'],
    ['sql("copy (select 1) to \'x\'")', /^pipeline.py line 1: Permission Error: Cannot access file/],
    ['sql("select * from read_text(\'/etc/passwd\')")', /line 1: Permission Error/],
    ['sql("select ?")', 'pipeline.py line 1: no value in params for parameter 1 of the query'],
    ['sql("select ? as a", [object()])', /: the parameter contains a value of type object/],
    ['ref("nothing.at.all.here")', /^pipeline.py line 1: /],
    ['ref("bronze.nothing")', 'pipeline.py line 1: table default.bronze.nothing does not exist'],
    ['ref(1)', 'pipeline.py line 1: ref() takes one name in quotes'],
    ['sql("select 1 as a").arrow', /^pipeline.py: the source did not set result$/],
    ['import sys; sys.exit(3)', 'pipeline.py line 1: SystemExit: 3'],
    ['import os; os._exit(3)', 'pipeline.py: the Python process ended: exit code 3 before the result'],
    ['import ctypes; ctypes.string_at(0)', /^pipeline.py: the Python process ended: .*SIGSEGV/],
    ['def a(): a()\na()', /^pipeline.py line 1: RecursionError/],
    [
      'import pathlib\nresult = pathlib.Path("/etc/passwd")',
      /^pipeline.py line 2: result is of type pathlib.PosixPath/,
    ],
    ['result = (x for x in iter(int, 1))', /^pipeline.py line 1: result is of type generator/],
    [
      'open("json.py", "w").write("raise SystemExit(7)")\nimport sys\nsys.path.insert(0, ".")\nsys.modules.clear()\nimport json',
      /^pipeline\.py/,
    ],
    ['import nothing_like_it', "pipeline.py line 1: ModuleNotFoundError: No module named 'nothing_like_it'"],
    ['open("/etc/passwd")', /^pipeline.py line 1: .*(Permission denied|No such file)/],
    [
      '\n\nresult = sql("select 1 as a, cast(x as integer) as b from (select \'y\' as x)")',
      /^pipeline.py line 3: Conversion Error/,
    ],
    [
      'def rows(n):\n  return sql("select interval 1 day as i")\nresult = rows(1)',
      /^pipeline.py line 2: column "i": INTERVAL cannot be stored/,
    ],
  ])('names the mistake and its line: %j', async (source, error) => {
    const failure = await failureOf(source)
    expect(failure).toStartWith('executing: ')
    if (typeof error === 'string') expect(failure).toBe(`executing: ${error}`)
    else expect(failure.replace('executing: ', '')).toMatch(error)
    expect(failure).not.toMatch(/sluice-runner-|\/lib\/|interpreter\.py|<sluice/)
  })

  test('the traceback is in the log, without lines of the service', async () => {
    const { lines } = await run(aTable(), 'def f():\n  sql("select nope")\n\nf()')
    const traceback = lines.find((line) => line.startsWith('Traceback'))
    expect(traceback).toStartWith(
      'Traceback (most recent call last):\n  File "pipeline.py", line 4, in <module>\n    f()\n',
    )
    expect(traceback).toContain('  File "pipeline.py", line 2, in f\n    sql("select nope")\n')
    expect(traceback).not.toMatch(/sluice|scratch/)
  })

  test('an endless chain of causes does not hide the error', async () => {
    const endless = 'never = KeyError("n")\nnever.__cause__ = never'
    const { lines, facts } = await run(aTable(), `${endless}\nraise ValueError("v") from never`)
    expect(facts.error).toBe('executing: pipeline.py line 3: ValueError: v')
    expect(lines.find((line) => line.startsWith('Traceback'))).toContain('line 3, in <module>')
  })

  test('the traceback names library files relative to Python, and the causes', async () => {
    const source = `
import json, os, threading
thread = threading.Thread(target=lambda: json.loads("{"))
thread.start(); thread.join()
try:
  json.loads("{")
except ValueError:
  raise KeyError(os.getcwd() + " " + json.__file__)
`
    const { lines, facts } = await run(aTable(), source)
    expect(facts.error).toBe("executing: pipeline.py line 8: KeyError: '. <python>/json/__init__.py'")
    const traceback = lines.find((line) => line.startsWith('Traceback') && line.includes('KeyError'))
    expect(traceback).toMatch(
      /File "<python>\/json\/decoder.py", line \d+, in decode\n[\s\S]*JSONDecodeError: .*\n\nDuring handling of the above exception, another exception occurred:\n\nTraceback \(most recent call last\):\n {2}File "pipeline.py", line 8/,
    )
    expect(lines.join('\n')).toMatch(/Exception in thread[\s\S]*File "<python>\/json\/decoder.py"/)
    expect(lines.join('\n')).not.toMatch(/"\/|sluice-/)
  })
})

described('limits', () => {
  test('a run beyond its time limit is ended with that reason', async () => {
    const short = await startRunner({ PYTHON_TIMEOUT: '1' })
    const { facts } = await run(aTable(), 'import time\ntime.sleep(60)', {}, short)
    expect(facts.error).toBe('executing: pipeline.py: time limit of 1 s exceeded (PYTHON_TIMEOUT)')
    await short.stop()
  })

  test('cancel ends busy Python, and Python that waits for the engine', async () => {
    const endless = 'select sum(a.range * b.range) as n from range(1000000) a, range(1000000) b'
    for (const source of ['print("on")\nwhile True: pass', `print("on")\nsql("${endless}").fetchall()`]) {
      const submit = await service.attempt(aTable(), { 'pipeline.py': source })
      const { handle } = await runner.client.submitPipeline({ ...submit, type: 'python' })
      for await (const { entry } of runner.client.streamLogs({ handle })) if (entry?.message === 'on') break
      expect(await runner.client.cancelRun({ handle })).toMatchObject({ interrupted: true })
      expect(await runner.client.getRunStatus({ handle })).toMatchObject({ status: RunStatus.CANCELLED })
    }
    await publish(aTable(), 'result = [{"a": 1}]')
  })

  test('a runner that is killed takes its interpreters with it', async () => {
    const doomed = await startRunner()
    const submit = await service.attempt(aTable(), {
      'pipeline.py': 'print("on")\nwhile True: pass',
    })
    const { handle } = await doomed.client.submitPipeline({ ...submit, type: 'python' })
    for await (const { entry } of doomed.client.streamLogs({ handle })) if (entry?.message === 'on') break
    const started = doomed.engines()
    expect(started.length).toBeGreaterThanOrEqual(2)
    process.kill(doomed.pid, 'SIGKILL')
    await until(() => !started.some(isAlive))
    await doomed.stop()
  })
})

described('validation', () => {
  const validate = async (source: string, by = runner) => {
    const { valid, files } = await by.client.validatePipeline({
      namespace: 'default',
      layer: 'bronze',
      pipelineName: 'p',
      type: 'python',
      files: [{ path: 'pipeline.py', content: source }],
      knownTables: [],
    })
    return { valid, errors: files[0]?.errors, warnings: files[0]?.warnings }
  }

  test('validation reports syntax errors with their lines and runs nothing', async () => {
    expect(await validate('result = 1 / 0')).toEqual({ valid: true, errors: [], warnings: [] })
    expect(await validate('x = 1\nif x\n  pass')).toEqual({
      valid: false,
      errors: ["line 2 column 5: SyntaxError: expected ':'"],
      warnings: [],
    })
    expect((await validate('x\0y')).errors?.[0]).toMatch(/null bytes/)
    expect((await validate(`${'('.repeat(10_000)}`)).valid).toBe(false)
    expect(await validate('ref("silver.nothing")')).toMatchObject({
      valid: true,
      warnings: [expect.stringContaining('there is no table "silver.nothing"')],
    })
  })

  test('validation finds bare table names in queries of the source', async () => {
    const source = [
      'result = sql("select * from gold.squares")',
      'name = ref("gold.squares")',
      'sql(f"select * from {name}, {this}").rows()',
      'duckdb_conn.execute("with a as (select 1) from a, range(3), " + ref("silver.b"))',
      'rows = sql("""select 1',
      '  from other""")',
      'sql("from " + landing_zone("drops"))',
      'sql("from read_csv(\'" + landing_zone("drops") + "\')")',
      'sql("selct 1")',
      'sql(made_elsewhere + "from b")',
    ].join('\n')
    const { valid, warnings } = await validate(source)
    expect(valid).toBe(true)
    expect(warnings?.filter((warning) => !warning.includes('there is no'))).toEqual([
      `line 1: gold.squares is a bare table name, which a run cannot read: write sql("... " + ref('gold.squares'))`,
      expect.stringMatching(/^line 6: other is a bare table name/),
      `line 7: landing_zone() returns the path of the zone's files as text: write sql("... read_csv('" + landing_zone("drops") + "')")`,
      'line 9: sql(): syntax error at or near "selct"',
    ])
  })

  test('validation ignores calls of a sql() that the pipeline defines', async () => {
    for (const definition of ['def sql(text): return text', 'from made import render as sql'])
      expect(await validate(`${definition}\nsql("hello, world")\nresult = []`)).toMatchObject({
        valid: true,
        warnings: [],
      })
  })

  test('validation accepts names made of names, however often they multiply', async () => {
    const levels = Array.from({ length: 14 }, (_, level) => `a${level + 1} = f"${`{a${level}}`.repeat(10)}"`)
    const circle = ['b = c + c', 'c = b + b']
    const source = ['a0 = f""', ...levels, ...circle, 'sql(a14)', 'sql(b)', 'result = []']
    expect(await validate(source.join('\n'))).toMatchObject({ valid: true })
  })

  test('without Python, only Python pipelines fail, with the missing part', async () => {
    const without = await startRunner({ PYTHON_BIN: '/nowhere/python3' })
    const missing = 'PYTHON_BIN: there is no /nowhere/python3 on this machine'
    const { facts } = await run(aTable(), 'result = []', {}, without)
    expect(facts.error).toStartWith(`rendering: python: ${missing}`)
    expect(await validate('x = = 1', without)).toEqual({
      valid: true,
      errors: [],
      warnings: [expect.stringContaining(`Python syntax not checked: ${missing}`)],
    })
    const submit = await service.attempt(aTable(), { 'pipeline.sql': 'select 1 as a' })
    expect((await runToEnd(without.client, submit)).facts.error).toBe('')
    await without.stop()
  })

  test('a full directory fails the run with the limit and its variable', async () => {
    const source = `
for n in range(5):
    with open(str(n), "wb") as f:
        for _ in range(16): f.write(bytes(1 << 20))
while True: pass`
    // With a PATH without bubblewrap, the runner uses the next sandbox.
    for (const PATH of [process.env.PATH ?? '', '/nowhere']) {
      const small = await startRunner({ PYTHON_DISK_LIMIT: '64MB', PATH, PYTHON_BIN: '/usr/bin/python3' })
      const { facts } = await run(aTable(), source, {}, small)
      expect(facts.error).toMatch(
        /pipeline.py.*(No space left on device: the limit of the directory is 67.1 MB|the directory of the run exceeded 67.1 MB) \(PYTHON_DISK_LIMIT\)/,
      )
      await small.stop()
    }
  })

  test('SANDBOX=required refuses weaker sandboxes than bubblewrap, and SANDBOX=off warns', async () => {
    // A PATH without bwrap stands for a machine without bwrap.
    const strict = await startRunner({
      SANDBOX: 'required',
      PATH: '/nowhere',
      PYTHON_BIN: '/usr/bin/python3',
    })
    expect((await run(aTable(), 'result = []', {}, strict)).facts.error).toBe(
      'rendering: python: SANDBOX=required, but bubblewrap does not work on this machine (bubblewrap: not installed)',
    )
    await strict.stop()
    const open = await startRunner({ SANDBOX: 'off' })
    const { facts, lines } = await run(aTable(), 'result = [{"a": 1}]', {}, open)
    expect(facts.error).toBe('')
    expect(lines).toContain('no sandbox (SANDBOX=off): the pipeline has all rights of the runner')
    await open.stop()
  })
})
