import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { BadCron, checkCron, nextAfter } from './cron.ts'

// A Saturday.
const NOW = new Date('2026-11-21T18:44:44.947Z')
const DAY = 86_400_000

/** The next `count` times, cut to minutes. */
function times(text: string, count: number, after = NOW): string[] {
  const found: string[] = []
  for (let at: Date | null = after; found.length < count; ) {
    at = nextAfter(text, at)
    if (at === null) break
    found.push(at.toISOString().slice(0, 16))
  }
  return found
}

describe('the next time', () => {
  test.each([
    ['* * * * *', ['2026-11-21T18:45', '2026-11-21T18:46']],
    ['0 6 * * *', ['2026-11-22T06:00', '2026-11-23T06:00']],
    ['*/20 */12 * * *', ['2026-11-22T00:00', '2026-11-22T00:20', '2026-11-22T00:40', '2026-11-22T12:00']],
    ['10-50/20 3 * * *', ['2026-11-22T03:10', '2026-11-22T03:30', '2026-11-22T03:50', '2026-11-23T03:10']],
    ['5,1,3 0 * * *', ['2026-11-22T00:01', '2026-11-22T00:03', '2026-11-22T00:05']],
    ['0 0 31 * *', ['2026-12-31T00:00', '2027-01-31T00:00', '2027-03-31T00:00']],
    ['0 0 29 2 *', ['2028-02-29T00:00', '2032-02-29T00:00']],
    ['59 23 31 12 *', ['2026-12-31T23:59', '2027-12-31T23:59']],
    ['0 0 1 1 *', ['2027-01-01T00:00', '2028-01-01T00:00']],
    ['*/59 * * * *', ['2026-11-21T18:59', '2026-11-21T19:00']],
    ['00 07 01 01 *', ['2027-01-01T07:00']],
  ])('%p has these next times', (text, expected) => {
    expect(times(text, expected.length)).toEqual(expected)
  })

  test.each([
    ['0 0 * jan-mar/2 *', '0 0 * 1,3 *'],
    ['0 0 * JAN,Dec *', '0 0 * 1,12 *'],
    ['0 0 * * mon-fri', '0 0 * * 1-5'],
    ['0 0 * * SUN', '0 0 * * 0'],
    ['0 0 * * 7', '0 0 * * 0'],
    ['0 0 * * 0-7', '0 0 * * *'],
    ['0 0 * * mon-sun', '0 0 * * *'],
    ['0 0 * * sat-sun', '0 0 * * 6,0'],
    ['0 0 * * 5-7', '0 0 * * 0,5,6'],
    ['0 0 * * 1-7/3', '0 0 * * 1,4,0'],
    ['0 0 * * sun-tue', '0 0 * * 0,1,2'],
    ['  0\t6  * * *  ', '0 6 * * *'],
    ['*,5 0 * * *', '* 0 * * *'],
  ])('%p means the same as %p', (text, same) => {
    expect(times(text, 40)).toEqual(times(same, 40))
  })

  test('matches either day if both day of month and weekday are given', () => {
    expect(times('0 0 1 * mon', 4)).toEqual([
      '2026-11-23T00:00',
      '2026-11-30T00:00',
      '2026-12-01T00:00',
      '2026-12-07T00:00',
    ])
    // February never has a 30th day, but it has Mondays.
    expect(times('0 0 30 2 mon', 2)).toEqual(['2027-02-01T00:00', '2027-02-08T00:00'])
  })

  test('is always later than the given time', () => {
    const noon = new Date('2026-11-21T12:00:00.000Z')
    expect(nextAfter('0 12 * * *', noon)).toEqual(new Date(noon.getTime() + DAY))
    expect(nextAfter('0 12 * * *', new Date(noon.getTime() - 1))).toEqual(noon)
  })

  test('ignores daylight saving time, because all times are UTC', () => {
    const days = times('30 2 * * *', 365)
    expect(new Set(days.map((time) => time.slice(11)))).toEqual(new Set(['02:30']))
    expect(new Set(days).size).toBe(365)
  })
})

describe('a refused cron expression', () => {
  test.each([
    ['', '0 fields'],
    ['   ', '0 fields'],
    ['* * * *', '4 fields; a cron expression has five: minute, hour, day of month, month, weekday'],
    ['0 * * * * *', '6 fields'],
    ['* * * * * 2030', '6 fields'],
    ['@daily', '1 field;'],
    ['@every 5m', '2 fields'],
    ['2026-11-21T18:44:00Z', '1 field;'],
    ['60 * * * *', 'minute 60 is not between 0 and 59'],
    ['* 24 * * *', 'hour 24 is not between 0 and 23'],
    ['* * 0 * *', 'day of month 0 is not between 1 and 31'],
    ['* * 32 * *', 'day of month 32 is not between 1 and 31'],
    ['* * * 0 *', 'month 0 is not between 1 and 12'],
    ['* * * 13 *', 'month 13 is not between 1 and 12'],
    ['* * * * 8', 'weekday 8 is not between 0 and 7'],
    ['0-60 * * * *', 'minute 60 is not between 0 and 59'],
    ['-5 * * * *', "invalid minute '-5'"],
    ['1- * * * *', "invalid minute '1-'"],
    ['5-1 * * * *', "minute range '5-1' ends before it starts"],
    ['* * * * fri-mon', "weekday range 'fri-mon' ends before it starts"],
    ['* * * dec-jan *', "month range 'dec-jan' ends before it starts"],
    ['1-2-3 * * * *', "invalid minute '1-2-3'"],
    ['1,,2 * * * *', "invalid minute ''"],
    ['1, * * * *', "invalid minute ''"],
    [', * * * *', "invalid minute ''"],
    ['*/ * * * *', "invalid minute '*/'"],
    ['/5 * * * *', "invalid minute '/5'"],
    ['*/0 * * * *', 'a step must be between 1 and 59'],
    ['1-5/0 * * * *', 'a step must be between 1 and 59'],
    ['*/90 * * * *', 'a step must be between 1 and 59'],
    ['* * * */13 *', 'a step must be between 1 and 12'],
    ['*/1/2 * * * *', "invalid minute '*/1/2'"],
    ['5/15 * * * *', 'a step needs * or a range'],
    ['*-5 * * * *', "invalid minute '*-5'"],
    ['** * * * *', "invalid minute '**'"],
    ['*5 * * * *', "invalid minute '*5'"],
    ['1.5 * * * *', "invalid minute '1.5'"],
    ['1e1 * * * *', "invalid minute '1e1'"],
    ['0x1 * * * *', "invalid minute '0x1'"],
    ['+1 * * * *', "invalid minute '+1'"],
    ['٣ * * * *', "invalid minute '٣'"],
    ['jan * * * *', "invalid minute 'jan'"],
    ['* * jan * *', "invalid day of month 'jan'"],
    ['* * * mon *', "invalid month 'mon'"],
    ['* * * * jan', "invalid weekday 'jan'"],
    ['* * * * monday', "invalid weekday 'monday'"],
    ['* * * * mon-5x', "invalid weekday 'mon-5x'"],
    ['* * L * *', "invalid day of month 'L'"],
    ['* * * * L', "invalid weekday 'L'"],
    ['* * * * 5L', "invalid weekday '5L'"],
    ['* * 15W * *', "invalid day of month '15W'"],
    ['* * LW * *', "invalid day of month 'LW'"],
    ['* * * * 5#2', "invalid weekday '5#2'"],
    ['* * ? * *', "invalid day of month '?'"],
    ['* * * * +5', "invalid weekday '+5'"],
    ['99999999999999999999 * * * *', "invalid minute '99999999999999999999'"],
    ['007 * * * *', "invalid minute '007'"],
    ['0 6 * * *\n', "invalid weekday '*\n'"],
    ['0 6 * * *\u00a0', "invalid weekday '*\u00a0'"],
    ['0\u00006 * * * *', 'invalid minute'],
    [`${'1,'.repeat(100)}1 * * * *`, 'longer than 200 characters'],
    ['0 0 31 2 *', 'matches no future time'],
    ['0 0 30 2 *', 'matches no future time'],
    ['0 0 31 4,6,9,11 *', 'matches no future time'],
    ['0 0 30-31 feb *', 'matches no future time'],
  ])('%p is refused because of: %p', (text, why) => {
    expect(() => checkCron(text, NOW)).toThrow(BadCron)
    expect(() => checkCron(text, NOW)).toThrow(why)
  })

  test('is refused again after many other expressions were parsed', () => {
    for (let n = 0; n < 2_100; n++) nextAfter(`${n % 60} ${Math.floor(n / 60) % 24} ${1 + (n % 28)} * *`, NOW)
    expect(() => checkCron('61 * * * *', NOW)).toThrow('minute 61')
    expect(times('0 6 * * *', 1)).toEqual(['2026-11-22T06:00'])
  })
})

// A reference implementation without croner: it tests minute after minute.

interface Part {
  text: string
  values: Set<number>
}
const NAMES: Record<string, string[]> = {
  month: ['', 'jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'],
  weekday: ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'],
}

function part(
  name: 'minute' | 'hour' | 'day' | 'month' | 'weekday',
  min: number,
  max: number,
): fc.Arbitrary<Part> {
  const shown = (value: number, isNamed: boolean) =>
    (isNamed ? NAMES[name]?.[value] : undefined) ?? String(value).padStart(value % 2 ? 2 : 1, '0')
  const range = (from: number, to: number, step: number) => {
    const values: number[] = []
    for (let value = from; value <= to; value += step) values.push(value)
    return values
  }
  const item = fc.oneof(
    fc.constant({ text: '*', values: range(min, max, 1) }),
    fc.integer({ min: 1, max }).map((step) => ({ text: `*/${step}`, values: range(min, max, step) })),
    fc
      .tuple(fc.integer({ min, max }), fc.boolean())
      .map(([value, isNamed]) => ({ text: shown(value, isNamed), values: [value] })),
    fc
      .tuple(
        fc.integer({ min, max }),
        fc.integer({ min, max }),
        fc.option(fc.integer({ min: 1, max })),
        fc.boolean(),
      )
      .map(([one, other, step, isNamed]) => {
        const [from, to] = [Math.min(one, other), Math.max(one, other)]
        // `sun` at the end of a range means 7, so a range that ends on 0 must use the figure.
        const end = shown(to, isNamed && to !== 0)
        return {
          text: `${shown(from, isNamed)}-${end}${step === null ? '' : `/${step}`}`,
          values: range(from, to, step ?? 1),
        }
      }),
  )
  return fc
    .oneof(
      { weight: 3, arbitrary: fc.constant([{ text: '*', values: range(min, max, 1) }]) },
      {
        weight: 5,
        arbitrary: fc.array(item, { minLength: 1, maxLength: 3 }),
      },
    )
    .map((items) => ({
      text: items.map(({ text }) => text).join(','),
      values: new Set(items.flatMap(({ values }) => values)),
    }))
}

const cron = fc.tuple(
  part('minute', 0, 59),
  part('hour', 0, 23),
  part('day', 1, 31),
  part('month', 1, 12),
  part('weekday', 0, 7),
)

function referenceNext(parts: Part[], after: Date): Date | null {
  const [minute, hour, day, month, weekday] = parts as [Part, Part, Part, Part, Part]
  const fitsDay = (at: Date) => {
    const byDay = day.values.has(at.getUTCDate())
    const byWeekday = weekday.values.has(at.getUTCDay()) || (at.getUTCDay() === 0 && weekday.values.has(7))
    if (!month.values.has(at.getUTCMonth() + 1)) return false
    // If both fields are given, either may match.
    return day.text === '*' || weekday.text === '*' ? byDay && byWeekday : byDay || byWeekday
  }
  const from = Math.floor(after.getTime() / 60_000) * 60_000 + 60_000
  // Eight years and a day reach from one leap day to the next, even across the end of a century.
  for (let start = from; start < from + 8.1 * 365 * DAY; start = (Math.floor(start / DAY) + 1) * DAY) {
    if (!fitsDay(new Date(start))) continue
    for (let at = start; at < (Math.floor(start / DAY) + 1) * DAY; at += 60_000) {
      const time = new Date(at)
      if (hour.values.has(time.getUTCHours()) && minute.values.has(time.getUTCMinutes())) return time
    }
  }
  return null
}

test('the next time equals the result of a minute-by-minute search', () => {
  fc.assert(
    fc.property(
      cron,
      fc.date({ min: new Date('2000-01-01'), max: new Date('2090-01-01'), noInvalidDate: true }),
      (parts, after) => {
        const text = parts.map((one) => one.text).join(' ')
        expect({ text, next: nextAfter(text, after) }).toEqual({ text, next: referenceNext(parts, after) })
      },
    ),
    { numRuns: 2_000 },
  )
})

test('any text is refused or has a later next time in whole minutes', () => {
  const character = fc.constantFrom(...'0123456789*/,-LW#?+@ \tjanmonsun'.split(''))
  fc.assert(
    fc.property(fc.string({ unit: character, maxLength: 30 }), (text) => {
      try {
        checkCron(text, NOW)
      } catch (error) {
        expect(error).toBeInstanceOf(BadCron)
        return
      }
      const next = nextAfter(text, NOW)
      expect(next?.getTime()).toBeGreaterThan(NOW.getTime())
      expect((next?.getTime() ?? 1) % 60_000).toBe(0)
    }),
    { numRuns: 5_000 },
  )
})
