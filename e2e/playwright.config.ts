/**
 * End-to-end tests speak HTTP to a running service at `SLUICE_URL`. `browser/` and `console/` need a Chromium
 * (`CHROMIUM_PATH`). `faults/` starts services of its own and kills parts of them. `security/` tries to escape the sandboxes
 * and to exceed rights. The other folders follow the resources of the API and need only the address. `kit/` has no tests.
 */
import { defineConfig } from '@playwright/test'

const chromium = process.env.CHROMIUM_PATH

/**
 * The two popups of the address bar are pages of their own, which Chromium loads for the window of each test: 0.65 s of CPU.
 * Only the last `--disable-features` counts, so the others repeat those of Playwright.
 */
const WITHOUT_FEATURES = [
  'WebUIOmniboxPopup',
  'WebUIOmniboxAimPopup',
  'WebUIOmniboxFullPopup',
  'AvoidUnnecessaryBeforeUnloadCheckSync',
  'DestroyProfileOnBrowserClose',
  'HttpsUpgrades',
  'HttpsFirstBalancedModeAutoEnable',
  'LensOverlay',
  'MediaRouter',
  'PaintHolding',
  'ThirdPartyStoragePartitioning',
  'AvoidCorsURLLoaderRestartOnRedirect',
  'TcpPortRandomizationWin',
  'OptimizationHints',
  'NetworkTimeServiceQuerying',
  'AimEnabled',
  'PreconnectToSearch',
]

const BROWSER = {
  launchOptions: {
    ...(chromium ? { executablePath: chromium } : {}),
    // Containers run as root and have a small /dev/shm.
    args: ['--no-sandbox', '--disable-dev-shm-usage', `--disable-features=${WITHOUT_FEATURES}`],
  },
}

export default defineConfig({
  testDir: '.',
  outputDir: '../test-results',
  // Each file uses names of its own, so files run in parallel. Tests and service share two cores.
  workers: 2,
  // The timeout ends tests that hang, not tests that are slow. It also covers hooks, which start services. No working test
  // takes longer, however busy the machine is. Tests set no smaller timeout and no limit of their own for a condition.
  timeout: 300_000,
  expect: { timeout: 120_000 },
  forbidOnly: Boolean(process.env.CI),
  reporter: 'list',
  use: {
    baseURL: process.env.SLUICE_URL ?? 'http://127.0.0.1:8080',
    extraHTTPHeaders: process.env.SLUICE_KEY ? { 'x-api-key': process.env.SLUICE_KEY } : {},
  },
  projects: [
    {
      name: 'api',
      testIgnore: ['browser/**', 'clock/**', 'console/**', 'faults/**', 'security/**', 'api/fuzz.spec.ts'],
    },
    { name: 'fuzz', testMatch: 'api/fuzz.spec.ts' },
    // Attacks need a service with secrets to lose, or take longer than the usual tests may.
    { name: 'security', testMatch: 'security/**/*.spec.ts' },
    { name: 'browser', testMatch: 'browser/**/*.spec.ts', use: BROWSER },
    { name: 'console', testMatch: 'console/**/*.spec.ts', use: BROWSER },
    // These tests wait for minutes until something is due.
    { name: 'clock', testMatch: 'clock/**/*.spec.ts' },
    // Each file starts and kills a service of its own, and mostly waits for it.
    { name: 'faults', testMatch: 'faults/**/*.spec.ts' },
  ],
})
