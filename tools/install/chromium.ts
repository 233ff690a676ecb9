import { existsSync } from 'node:fs'
import { chromium } from '@playwright/test'

const USUAL_PLACES = [
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
]

/** The path of Chromium: `CHROMIUM_PATH`, the system's or Playwright's, in this order. Undefined if none exists. */
export const findChromium = () =>
  [process.env.CHROMIUM_PATH, ...USUAL_PLACES, chromium.executablePath()].find(
    (path) => path && existsSync(path),
  )
