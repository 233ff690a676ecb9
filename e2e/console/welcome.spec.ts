// The tour of a newcomer: five steps, each with what the service really did.
import { expect, type Page, test } from '@playwright/test'
import { newNamespace, rowsOf } from '../kit/resources.ts'
import { expectAccessible, openConsole } from './open.ts'

test('the tour goes from a file to a gated gold table', async ({ page, request, baseURL }) => {
  const namespace = await newNamespace(request)
  const faults = await openConsole(page, baseURL, `/welcome?namespace=${namespace}`)
  const act = async (name: string) => {
    const button = page.getByRole('button', { name })
    await expect(button).toBeEnabled()
    await button.click()
  }
  await expect(page.getByRole('heading', { name: 'Drop a file' })).toBeVisible()
  await expectAccessible(page, 'welcome-start')
  await act('Drop the file')
  await expect(page.getByText('read_csv')).toBeVisible()
  await act('Publish and run')
  await expect(page.getByText('select * from {{ this }} where revenue < 0')).toBeVisible()
  await act('Publish and run')
  await expect(page.getByText('customer=Linus, revenue=-42.25, orders=1')).toBeVisible()
  await expectAccessible(page, 'welcome-gate')
  await page.reload()
  const steps = await shownSteps(page)
  await act('Publish the fix and run')
  await expect(page.getByRole('grid')).toContainText('Ada')
  await expect(page.getByRole('heading', { name: 'Use the table' })).toBeFocused()
  expect(await steps()).toEqual(['4', '5'])
  await expect(page.getByRole('grid')).toContainText('155.5')
  await expectAccessible(page, 'welcome-done')
  expect(await rowsOf(request, 'select customer from gold.revenue order by 1', namespace)).toEqual([
    { customer: 'Ada' },
    { customer: 'Grace' },
  ])
  await page.getByRole('link', { name: 'Write a pipeline of your own' }).click()
  const form = page.getByRole('dialog', { name: 'New pipeline' })
  await expect(form.getByLabel('Name', { exact: true })).toHaveValue('')
  await page.goBack()
  expect(faults).toEqual([])
  await act('Start over')
  await act('Delete them')
  await expect(page.getByRole('button', { name: 'Drop the file' })).toBeEnabled()
})

/** Returns a function that lists the present steps since now, in their order. */
async function shownSteps(page: Page): Promise<() => Promise<string[]>> {
  const steps = await page.evaluateHandle(() => {
    const seen: string[] = []
    const note = () => {
      const number = document.querySelector('[aria-current=step] .tour-number')?.textContent
      if (number && seen.at(-1) !== number) seen.push(number)
    }
    note()
    new MutationObserver(note).observe(document.body, { subtree: true, childList: true, attributes: true })
    return seen
  })
  return () => steps.jsonValue()
}

test('a step of the tour says why it failed, and can be repeated', async ({ page, request, baseURL }) => {
  const namespace = await newNamespace(request)
  await openConsole(page, baseURL, `/welcome?namespace=${namespace}`)
  await page.route('**/api/v1/landing-zones/*/orders/files', (route) =>
    route.fulfill({ status: 507, json: { error: { code: 'DISK_FULL', message: 'the disk is full' } } }),
  )
  await page.getByRole('button', { name: 'Drop the file' }).click()
  await expect(page.getByRole('alert')).toContainText('the disk is full')
  await page.unrouteAll()
  await page.getByRole('button', { name: 'Drop the file' }).click()
  await expect(page.getByText('read_csv')).toBeVisible()
})
