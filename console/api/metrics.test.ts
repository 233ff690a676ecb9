import { expect, test } from 'bun:test'
import { sampleOf, samplesIn, sumOf } from './metrics.ts'

const TEXT = `# HELP sluice_leads Whether this replica leads
# TYPE sluice_leads gauge
sluice_leads{role="scheduler"} 1
sluice_leads{role="reaper",note="a \\"b\\" \\\\ c\\nd}"} 0
sluice_active_runs 3
sluice_active_runs{x=""} 1.5e1

not a sample`

test('reads names, labels with escapes, and values', () => {
  expect(samplesIn(TEXT)).toEqual([
    { name: 'sluice_leads', labels: { role: 'scheduler' }, value: 1 },
    { name: 'sluice_leads', labels: { role: 'reaper', note: 'a "b" \\ c\nd}' }, value: 0 },
    { name: 'sluice_active_runs', labels: {}, value: 3 },
    { name: 'sluice_active_runs', labels: { x: '' }, value: 15 },
  ])
})

test('finds a sample by its labels and sums all of a name', () => {
  const samples = samplesIn(TEXT)
  expect(sampleOf(samples, 'sluice_leads', { role: 'scheduler' })).toBe(1)
  expect(sampleOf(samples, 'sluice_leads', { role: 'triggers' })).toBeUndefined()
  expect(sumOf(samples, 'sluice_active_runs')).toBe(18)
})
