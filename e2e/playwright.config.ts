/**
 * End-to-end tests speak HTTP to a running service at `SLUICE_URL`. `browser/` needs a Chromium (`CHROMIUM_PATH`), `faults/`
 * starts services of its own and kills parts of them, `security/` tries to get out of the sandboxes; everything else needs no more than the address.
 */
import { defineConfig } from '@playwright/test'

const chromium = process.env.CHROMIUM_PATH

/** Need a service with secrets to lose, or take longer than the usual tests may. */
const ATTACKS =
  '{audit-flood,browser-attacks,bypass,credentials,disk-space,exhaustion,forged-identity,function-level,identifiers,large-answers,license,matrix,object-level,path-traversal,secret-leaks,side-channels,side-channels-of-lists,sidecar-ports,ssrf,unsafe-parsing}.spec.ts'

export default defineConfig({
  testDir: '.',
  outputDir: '../test-results',
  // Each file has names of its own, so files run side by side; two cores are shared with the service under test.
  workers: 2,
  // Of hooks too, and those start services: nothing that works takes longer, however busy the machine is. For what hangs, not
  // for what is slow: no test asks for less, and none has limits of its own for what it waits for.
  timeout: 300_000,
  expect: { timeout: 120_000 },
  forbidOnly: Boolean(process.env.CI),
  // What passes then is told all the same: `tools/test/tally.ts`.
  retries: process.env.CI ? 1 : 0,
  reporter: 'list',
  use: {
    baseURL: process.env.SLUICE_URL ?? 'http://127.0.0.1:8080',
    extraHTTPHeaders: process.env.SLUICE_KEY ? { 'x-api-key': process.env.SLUICE_KEY } : {},
  },
  projects: [
    // Of the attempts to escape there is a part here: those of previews take milliseconds each.
    {
      name: 'api',
      testIgnore: [
        'browser/**',
        'clock/**',
        'faults/**',
        'security/{kept,landing,pipeline,python,template,query}-*',
        `security/${ATTACKS}`,
      ],
    },
    // A way out that is open every second time is open: none is tried again.
    { name: 'security', testMatch: ['security/*-escape.spec.ts', `security/${ATTACKS}`], retries: 0 },
    {
      name: 'browser',
      testMatch: 'browser/**/*.spec.ts',
      use: {
        launchOptions: {
          ...(chromium ? { executablePath: chromium } : {}),
          // Containers run as root and have a small /dev/shm.
          args: ['--no-sandbox', '--disable-dev-shm-usage'],
        },
      },
    },
    // Minutes pass until something is due.
    { name: 'clock', testMatch: 'clock/**/*.spec.ts' },
    // Killing parts of several services at once would test the machine instead of the healing.
    { name: 'faults', testMatch: 'faults/**/*.spec.ts', workers: 1 },
  ],
})
