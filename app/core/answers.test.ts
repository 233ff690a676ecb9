import { expect, test } from 'bun:test'
import { makeAnswers } from './answers.ts'

test('answers are counted by route, method and status, and by how long they took', () => {
  const answers = makeAnswers({ requests: 'n_total', duration: 'n_seconds' })
  const answered = { method: 'GET', path: '/a/:id', status: 200 }
  for (const seconds of [0.0004, 0.001, 0.02, 31]) answers.count({ ...answered, seconds })
  answers.count({ ...answered, status: 404, seconds: 0.5 })
  const lines = answers.text().split('\n')
  const ok = 'method="GET",path="/a/:id",status="200"'
  expect(lines).toContain(`n_total{${ok}} 4`)
  expect(lines).toContain('n_total{method="GET",path="/a/:id",status="404"} 1')
  for (const [bound, count] of [
    ['0.001', 2],
    ['0.01', 2],
    ['0.025', 3],
    ['30', 3],
    ['+Inf', 4],
  ])
    expect(lines).toContain(`n_seconds_bucket{le="${bound}",${ok}} ${count}`)
  expect(lines).toContain(`n_seconds_sum{${ok}} 31.0214`)
  expect(lines).toContain(`n_seconds_count{${ok}} 4`)
  expect(lines.filter((line) => line.startsWith('# TYPE'))).toEqual([
    '# TYPE n_total counter',
    '# TYPE n_seconds histogram',
  ])
})

test('a pattern cannot end its label', () => {
  const answers = makeAnswers({ requests: 'n_total', duration: 'n_seconds' })
  answers.count({ method: 'GET', path: 'a"\\\nb', status: 200, seconds: 1 })
  expect(answers.text()).toContain('n_total{method="GET",path="a\\"\\\\\\nb",status="200"} 1\n')
})
