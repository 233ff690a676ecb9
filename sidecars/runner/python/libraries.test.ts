import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { RunStatus } from '../../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { openTestService, type RunnerProcess, runToEnd, startRunner, type TestService } from '../testing.ts'

// These tests need a Python with pyarrow, pandas and polars, which TEST_PYTHON_BIN names. Without it, they are reported as
// skipped. `.ci/run` installs this Python.

setDefaultTimeout(60_000)

const bin = process.env.TEST_PYTHON_BIN
const described = bin === undefined ? describe.skip : describe

described('with pyarrow, pandas and polars', () => {
  let service: TestService
  let runner: RunnerProcess
  beforeAll(async () => {
    service = await openTestService()
    runner = await startRunner({ PYTHON_BIN: bin ?? '', PYTHON_MEMORY_LIMIT: '2GB' })
  })
  afterAll(async () => {
    await runner.stop()
    await service.close()
  })

  let tables = 0
  async function run(source: string, type = 'python') {
    tables += 1
    const name = `t${tables}`
    const table = { namespace: 'default', layer: 'bronze', name } as const
    const submit = await service.attempt(table, { [`pipeline.${type === 'sql' ? 'sql' : 'py'}`]: source })
    const { facts, lines } = await runToEnd(runner.client, { ...submit, type })
    if (facts.status === RunStatus.COMPLETED) await service.merge(submit, facts.testedCommit)
    return { error: facts.error.replace('executing: pipeline.py', 'py'), name, lines }
  }

  /** The types and rows of a table, as the engine sees them. */
  async function contents(name: string): Promise<string> {
    const { results } = await runner.client.runQualityTests({
      namespace: 'default',
      layer: 'bronze',
      pipelineName: name,
      files: [
        {
          path: 'tests/quality/q.sql',
          content:
            "select error((select string_agg(column_name || ' ' || column_type, ', ') from (describe from {{ this }})) || ': ' || (select list(t)::varchar from {{ this }} t))",
        },
      ],
      lake: await service.readMain(),
    })
    return results[0]?.error.replace(/^.*?Invalid Input Error: /, '') ?? ''
  }

  async function written(source: string): Promise<string> {
    const { error, name } = await run(source)
    expect(error).toBe('')
    return contents(name)
  }

  test('rows go in and out as an Arrow table', async () => {
    expect(
      await written(`
table = sql("select 1::integer as i, 2::hugeint as h, 1.50::decimal(9,2) as d, timestamp '2024-01-01 10:00:00.5' as at, [1, 2] as l, null::integer as n").arrow()
import pyarrow
assert isinstance(table, pyarrow.Table), table
assert table.schema.field("d").type == pyarrow.decimal128(9, 2), table.schema
result = table`),
    ).toBe(
      "i INTEGER, h DECIMAL(38,0), d DECIMAL(9,2), at TIMESTAMP, l INTEGER[], n INTEGER: [{'i': 1, 'h': 2, 'd': 1.50, 'at': '2024-01-01 10:00:00.5', 'l': [1, 2], 'n': NULL}]",
    )
  })

  test('a pandas frame is a result with missing values as NULL', async () => {
    expect(
      await written(`
frame = sql("select range as id, 'n' || range as name from range(2)").df()
frame["at"] = __import__("pandas").Timestamp("2024-01-01 10:00")
frame["gap"] = [1.5, None]
frame["none"] = None
result = frame`),
    ).toBe(
      "id BIGINT, name VARCHAR, at TIMESTAMP, gap DOUBLE, none VARCHAR: [{'id': 0, 'name': n0, 'at': '2024-01-01 10:00:00', 'gap': 1.5, 'none': NULL}, {'id': 1, 'name': n1, 'at': '2024-01-01 10:00:00', 'gap': NULL, 'none': NULL}]",
    )
  })

  test.each([
    [
      'frame.groupby("g").sum()',
      "g VARCHAR, k BIGINT, n BIGINT: [{'g': a, 'k': 2, 'n': 3}, {'g': b, 'k': 2, 'n': 3}]",
    ],
    [
      'frame.groupby(["g", "k"]).sum()',
      "g VARCHAR, k BIGINT, n BIGINT: [{'g': a, 'k': 1, 'n': 3}, {'g': b, 'k': 2, 'n': 3}]",
    ],
    ['frame.set_index("k")[["n"]].head(1)', "k BIGINT, n BIGINT: [{'k': 1, 'n': 1}]"],
    ['frame[frame.n > 2][["n"]]', "n BIGINT: [{'n': 3}]"],
    ['frame[["n"]].set_index([[7, 8, 9]]).head(1)', "n BIGINT: [{'n': 1}]"],
    ['frame[["n"]].set_index([frame.k, [7, 8, 9]]).head(1)', "k BIGINT, n BIGINT: [{'k': 1, 'n': 1}]"],
  ])('named levels of an index are columns: %s', async (expression, expected) => {
    const frame = 'frame = pandas.DataFrame({"g": ["a", "a", "b"], "k": [1, 1, 2], "n": [1, 2, 3]})'
    expect(await written(`import pandas\n${frame}\nresult = ${expression}`)).toBe(expected)
  })

  test.each([
    ['sql("select 1 as a, unnest([9007199254740993, null]) as b").df()[["a"]]', 'b'],
    ['__import__("pandas").DataFrame({"b": [1, None]})', 'b'],
    ['sql("select [9007199254740993, null] as b").df()', 'b'],
    ['sql("select unnest([{n: 9007199254740993}, {n: null}]) as b").df()', 'b'],
  ])('whole numbers that pandas keeps as floats are warned of: %s', async (source, column) => {
    const { error, lines } = await run(`result = ${source}`)
    expect(error).toBe('')
    expect(lines.join('\n')).toContain(
      `column "${column}" has whole numbers and missing values: pandas keeps`,
    )
  })

  test('exact and fractional numbers with gaps are not warned of', async () => {
    const { error, lines } = await run(
      'import pandas\nresult = pandas.DataFrame({"a": pandas.array([1, None], "Int64"), "b": [1.5, None], "c": [None, None]})',
    )
    expect(error).toBe('')
    expect(lines.join('\n')).not.toContain('missing values')
  })

  test('a polars frame is a result', async () => {
    expect(
      await written(`
import polars
frame = sql("select range as id, date '2024-01-01' as day from range(2)").pl()
result = frame.with_columns(half=polars.col("id") / 2, s=polars.lit("x"), none=polars.lit(None))`),
    ).toBe(
      "id BIGINT, day DATE, half DOUBLE, s VARCHAR, none VARCHAR: [{'id': 0, 'day': 2024-01-01, 'half': 0.0, 's': x, 'none': NULL}, {'id': 1, 'day': 2024-01-01, 'half': 0.5, 's': x, 'none': NULL}]",
    )
  })

  test('values of numpy and pandas are accepted in dicts and lists', async () => {
    expect(
      await written(`
import numpy, pandas
result = {"a": numpy.array([1, 2]), "b": [numpy.float64(1.5), numpy.nan], "c": [pandas.Timestamp("2024-01-01"), pandas.NaT], "d": [numpy.array([1]), None], "e": numpy.array(["2024-01-01T10:00", "NaT"], "datetime64[ns]")}`),
    ).toBe(
      "a BIGINT, b DOUBLE, c TIMESTAMP, d BIGINT[], e TIMESTAMP: [{'a': 1, 'b': 1.5, 'c': '2024-01-01 00:00:00', 'd': [1], 'e': '2024-01-01 10:00:00'}, {'a': 2, 'b': nan, 'c': NULL, 'd': NULL, 'e': NULL}]",
    )
  })

  test.each(['Y', 'M', 'W', 'D'])('a numpy time of unit %s is a date', async (unit) => {
    expect(
      await written(`
import numpy
value = numpy.datetime64("2026-01-01", "${unit}")
result = {"a": numpy.array([value]), "b": [value], "c": [[value]]}`),
    ).toBe("a DATE, b DATE, c DATE[]: [{'a': 2026-01-01, 'b': 2026-01-01, 'c': [2026-01-01]}]")
  })

  test('a time of day with whole microseconds is stored', async () => {
    expect(
      await written(
        'import pyarrow\nresult = pyarrow.table({"a": pyarrow.array([36_000_000_001_000], pyarrow.time64("ns"))})',
      ),
    ).toBe("a TIME: [{'a': '10:00:00.000001'}]")
  })

  test('an index without a name whose values are no numbers is warned of', async () => {
    const { error, lines } = await run('import pandas\nresult = pandas.DataFrame({"a": [1]}, index=["x"])')
    expect(error).toBe('')
    expect(lines.join('\n')).toContain('the index of result has no name, so its values are not stored')
  })

  test.each([
    [
      'import pyarrow\nresult = pyarrow.table({"a": pyarrow.array([1], pyarrow.duration("s"))})',
      'py line 2: column "a" contains durations',
    ],
    ['import pandas\nresult = pandas.DataFrame({1: [1]})', 'py line 2: the name of a column is 1'],
    ['import pandas\nresult = pandas.DataFrame({"a": [object()]})', 'py line 2: result: '],
    [
      'import pandas\nresult = pandas.DataFrame({"a": [pandas.Timestamp("2024-01-01 00:00:00.000000001")]})',
      'py line 2: result: ',
    ],
    [
      'import pandas\nresult = pandas.DataFrame({"a": [2.5, 9007199254740993]}, dtype=object)',
      'py line 2: result: ',
    ],
    [
      'import pandas\nresult = pandas.DataFrame({"a": [1]}, index=pandas.Index([2], name="a"))',
      'py line 2: the index and a column of result are both named "a"',
    ],
    ['import pandas\nresult = pandas.Series([1])', 'py line 2: result is of type pandas'],
    [
      'import pandas\nresult = pandas.DataFrame({"a": [2**70, 1]})',
      'py line 2: column "a" contains the number 1180591620717411303424 beyond 64 bits',
    ],
    [
      'import pandas\nresult = pandas.DataFrame({"a": pandas.period_range("2026-01", periods=1, freq="M")})',
      'py line 2: column "a" is of type pandas.period',
    ],
    [
      'import pandas\nresult = [{"a": pandas.Timestamp("2024-01-01 00:00:00.000000001")}]',
      'py line 2: column "a" contains the time 2024-01-01 00:00:00.000000001 with nanoseconds',
    ],
    [
      'import numpy\nresult = {"a": numpy.array(["2024-01-01T00:00:00.000000001"], "datetime64[ns]")}',
      'py line 2: column "a" contains the time 2024-01-01T00:00:00.000000001 with nanoseconds',
    ],
    [
      'import numpy\nresult = {"a": numpy.array([1], "timedelta64[ns]")}',
      'py line 2: column "a" contains a value of type numpy.timedelta64',
    ],
    [
      'import polars\nresult = polars.DataFrame({"a": [2**100]}, schema={"a": polars.Int128})',
      'py line 2: column "a" is of type Int128',
    ],
    [
      'import polars\nresult = polars.DataFrame({"a": [1]}).with_columns(polars.col("a").cast(polars.Datetime("ns")))',
      'py line 2: column "a" contains the time 1970-01-01 00:00:00',
    ],
    [
      'import polars\nresult = polars.DataFrame({"a": [[1]]}).with_columns(polars.col("a").cast(polars.List(polars.Datetime("ns", "UTC"))))',
      'py line 2: column "a" has times with nanoseconds in nested values',
    ],
    [
      'import pyarrow\nresult = pyarrow.table({"a": pyarrow.array([1], pyarrow.time64("ns"))})',
      'py line 2: column "a": ',
    ],
    ['import polars\nresult = polars.LazyFrame({"a": [1]})', 'py line 2: result is of type polars'],
    [
      'import pyarrow\nresult = pyarrow.table([pyarrow.array([1]), pyarrow.array([2])], names=["a", "a"])',
      'py line 2: two columns of result have the same name',
    ],
  ])('an invalid result fails with its line: %j', async (source, error) =>
    expect((await run(source)).error).toStartWith(error),
  )

  test('a million rows go in and out as Arrow', async () => {
    const { error } = await run(
      `t = sql("select range as id, range * 0.5::double as v, 'name ' || range as n from range(1000000)").arrow()\nassert t.num_rows == 1000000\nresult = t`,
    )
    expect(error).toBe('')
  })
})
