/** `npm run test:console`: every page and journey of the web console in Chromium, from Debian's package if there is none. */
import { installed } from '../install/apt.ts'
import { findChromium } from '../install/chromium.ts'
import { runPlaywright } from '../kit/playwright.ts'
import { inScratch } from '../kit/scratch.ts'
import { Tally } from '../kit/tally.ts'
import { type Service, startService } from '../service/service.ts'

const LIMIT_MS = 1_800_000

const tally = new Tally()
await inScratch(async () => {
  tally.heading('Console')
  let service: Service | undefined
  let chromium: string | undefined
  await tally.check('Chromium is there', async () => {
    chromium = findChromium() ?? (await installed('chromium', findChromium))
    return undefined
  })
  await tally.check('the service starts', async () => {
    service = await startService()
    return undefined
  })
  if (service !== undefined && chromium !== undefined) {
    const failuresBefore = tally.failures.length
    await runPlaywright(tally, {
      project: 'console',
      files: process.argv.slice(2),
      limitMs: LIMIT_MS,
      env: { SLUICE_URL: service.url, CHROMIUM_PATH: chromium },
    })
    if (tally.failures.length > failuresBefore) tally.note(`Last log lines of the service:\n${service.log()}`)
    await tally.check('the service stops and leaves no process or file', service.stop)
  }
  return tally.conclude()
})
