import { describe, expect, test } from 'bun:test'
import { isAllowed, isReplaceable, REVIEWS, reviewOf, strictest } from './rule.ts'

test('the strictest rule holds', () => {
  expect(strictest([])).toBe('none')
  expect(strictest([null, undefined])).toBe('none')
  expect(strictest(['none', 'any'])).toBe('any')
  expect(strictest(['four-eyes', 'any', null])).toBe('four-eyes')
})

test('reviewers count only with merge: review', () => {
  expect(reviewOf({ merge: 'auto', reviewers: 'four-eyes' })).toBe('none')
  expect(reviewOf({ merge: 'review', reviewers: 'any' })).toBe('any')
  expect(reviewOf({ merge: 'review', reviewers: 'four-eyes' })).toBe('four-eyes')
})

const ann = { authors: ['ann'], by: 'ann' }
const bob = { authors: ['ann'], by: 'bob' }
const both = { authors: ['ann', 'bob'], by: 'bob' }
const anonymous = { authors: ['ann'], by: null }

describe('a change of main', () => {
  test('without a decision is allowed only without a rule', () => {
    expect(REVIEWS.map((rule) => isAllowed(rule))).toEqual([true, false, false])
  })
  test('with a decision by its author is refused by four eyes', () => {
    expect(REVIEWS.map((rule) => isAllowed(rule, ann))).toEqual([true, true, false])
  })
  test('with a decision by somebody else is allowed', () => {
    expect(REVIEWS.map((rule) => isAllowed(rule, bob))).toEqual([true, true, true])
  })
  test('counts all of its authors', () => {
    expect(isAllowed('four-eyes', both)).toBe(false)
    expect(isAllowed('four-eyes', { ...both, by: 'eve' })).toBe(true)
  })
  test('with an anonymous decision is allowed, because callers are not told apart', () => {
    expect(REVIEWS.map((rule) => isAllowed(rule, anonymous))).toEqual([true, true, true])
  })
})

describe('a lower rule', () => {
  test('replaces any other rule than four eyes', () => {
    for (const rule of ['none', 'any'] as const)
      for (const next of REVIEWS) expect(isReplaceable(rule, next, ann)).toBe(true)
  })
  test('replaces four eyes only by a second person', () => {
    for (const next of ['none', 'any'] as const)
      expect([ann, bob, both, anonymous].map((by) => isReplaceable('four-eyes', next, by))).toEqual([
        false,
        true,
        false,
        true,
      ])
  })
  test('does not replace four eyes when its authors are unknown', () => {
    expect(isReplaceable('four-eyes', 'none', { authors: [], by: 'ann' })).toBe(false)
  })
  test('is no lower rule when four eyes stay', () => {
    expect(isReplaceable('four-eyes', 'four-eyes', ann)).toBe(true)
  })
})
