/** Prometheus checks the alert rules, and tests them with the series of `alerts.test.yaml`. */
import { join } from 'node:path'
import { unpacked } from '../install/apt.ts'
import { run } from '../kit/run.ts'
import type { Tally } from '../kit/tally.ts'

const FOLDER = join(import.meta.dirname, '..', 'observability')
const LIMIT_MS = 60_000

export async function judgeAlertRules(tally: Tally): Promise<void> {
  tally.heading('Alert rules (promtool)')
  let promtool: string | undefined
  await tally.check('promtool', async () => {
    promtool = Bun.which('promtool') ?? join(await unpacked('prometheus'), 'usr', 'bin', 'promtool')
    return undefined
  })
  if (promtool === undefined) return
  for (const [title, command] of [
    ['promtool accepts the alert rules', [promtool, 'check', 'rules', 'alerts.yaml']],
    ['each alert fires on its condition only', [promtool, 'test', 'rules', 'alerts.test.yaml']],
  ] as const)
    await tally.check(title, async () => {
      const { code, output } = await run({ command: [...command], cwd: FOLDER, limitMs: LIMIT_MS })
      return code === 0 ? undefined : output
    })
}
