// Helpers of the console's browser tests.
import AxeBuilder from '@axe-core/playwright'
import { expect, type Page } from '@playwright/test'

/** Opens a page of the console. Returns a list that collects faults: requests to other origins, errors and policy violations. */
export async function openConsole(page: Page, baseURL: string | undefined, path = '/'): Promise<string[]> {
  const faults: string[] = []
  const origin = new URL(baseURL ?? '').origin
  page.on('request', (request) => {
    const { origin: asked, protocol } = new URL(request.url())
    if (protocol !== 'data:' && protocol !== 'blob:' && asked !== origin) faults.push(request.url())
  })
  page.on('console', (message) => message.type() === 'error' && faults.push(message.text()))
  page.on('pageerror', (error) => faults.push(error.message))
  await page.addInitScript(() =>
    addEventListener('securitypolicyviolation', (event) => {
      const { violatedDirective, blockedURI } = event as SecurityPolicyViolationEvent
      console.error(`policy: ${violatedDirective} ${blockedURI}`)
    }),
  )
  await page.goto(new URL(`/console${path}`, baseURL).href)
  return faults
}

const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']

/**
 * The violations that axe finds in the present page. The pages have no frames of other origins, so axe needs no second page.
 * It stays in the document: loading its 650 KB again would take ten times as long as an analysis.
 */
async function violationsOf(page: Page): Promise<string[]> {
  const isLoaded = await page.evaluate(() => 'axe' in window)
  const { violations } = await new AxeBuilder({ page, axeSource: isLoaded ? 'void 0' : undefined })
    .setLegacyMode()
    .options({ resultTypes: ['violations'] })
    .withTags(RULES)
    .analyze()
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`)
}

const SIZES = [
  { width: 1440, height: 900 },
  { width: 390, height: 844 },
]

/**
 * Expects that axe finds no violation in the present page, in light and dark, wide and narrow. The page must not scroll
 * sideways, and the document not at all. With `SHOTS` set to a folder, keeps a picture of each.
 */
export async function expectAccessible(page: Page, name: string): Promise<void> {
  for (const scheme of ['light', 'dark'] as const)
    for (const size of SIZES) {
      await page.emulateMedia({ colorScheme: scheme, reducedMotion: 'reduce' })
      await page.setViewportSize(size)
      await expect(page.locator('html')).toHaveAttribute('data-theme', scheme)
      // Two frames later, the new size and colours are on the screen.
      await page.evaluate(
        () => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))),
      )
      const found = await violationsOf(page)
      expect(found, `${name}, ${scheme}, ${size.width} px`).toEqual([])
      const overflow = await page.evaluate(() => {
        const main = document.querySelector('main')
        const inMain = main === null ? 0 : main.scrollWidth - main.clientWidth
        const { scrollWidth, scrollHeight } = document.documentElement
        const below = document.querySelector('.shell') === null ? 0 : scrollHeight - innerHeight
        return { wide: Math.max(scrollWidth - innerWidth, inMain), below }
      })
      expect(overflow.wide, `${name} at ${size.width} px is too wide`).toBeLessThanOrEqual(0)
      expect(overflow.below, `${name} at ${size.width} px scrolls the document`).toBeLessThanOrEqual(0)
      if (process.env.SHOTS)
        await page.screenshot({ path: `${process.env.SHOTS}/${name}-${scheme}-${size.width}.png` })
    }
  await page.emulateMedia({ colorScheme: 'light' })
  await page.setViewportSize({ width: 1440, height: 900 })
}
