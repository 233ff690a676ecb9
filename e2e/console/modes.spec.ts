// The console in the two authentication modes that ask for a credential: API keys, and access tokens of an identity provider.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type APIRequestContext, expect, type Page, request as requests, test } from '@playwright/test'
import { freePort, type OwnService, startOwnService } from '../kit/own-service.ts'
import { newNamespace, publishedPipeline } from '../kit/resources.ts'
import { requestRun, runToSuccess } from '../kit/runs.ts'
import { KEY, licensedWith, startProvider } from '../security/rights/pro-service.ts'
import { expectAccessible, openConsole } from './open.ts'

interface Mode {
  service: OwnService
  /** A credential with all rights. */
  credential(): string
  wrong: string
  /** A credential of the same caller that the service no longer accepts. */
  ended(): string
  /** The reason in the message about the wrong credential. */
  refusal: string
  /** From now on, the service refuses the credential of the page. Resolves with the reason. */
  revoke(page: Page): Promise<string>
  stop(): Promise<void>
}

/** API keys of a community service. A key is revoked by a restart with another key. */
async function startWithKeys(): Promise<Mode> {
  const [first, second] = ['first-key-0123456789', 'second-key-0123456789']
  const kept = { PORT: String(await freePort()), DATA_DIR: await mkdtemp(join(tmpdir(), 'sluice-modes-')) }
  const mode: Mode = {
    service: await startOwnService({ ...kept, PLATFORM_API_KEY: first }),
    credential: () => first,
    wrong: 'wrong-key-0123456789',
    ended: () => 'a-key-that-was-revoked',
    refusal: 'X-Api-Key is not valid',
    async revoke() {
      await mode.service.stop()
      mode.service = await startOwnService({ ...kept, PLATFORM_API_KEY: second })
      mode.credential = () => second
      return mode.refusal
    },
    async stop() {
      await mode.service.stop()
      await rm(kept.DATA_DIR, { recursive: true, force: true })
    },
  }
  return mode
}

/** A Pro service with an identity provider. */
async function startWithProvider() {
  const provider = await startProvider()
  const service = await startOwnService({
    ...licensedWith(),
    ...provider.env,
    PLATFORM_API_KEYS: `ci:${KEY}`,
  })
  const token = (sub: string, claims: object = {}) => provider.token({ sub, ...claims })
  const ended = (sub = 'root') => token(sub, { exp: Math.floor(Date.now() / 1_000) - 3_600 })
  return {
    service,
    token,
    credential: () => token('root', { name: 'Ruth Óscarsdóttir', roles: ['admin'] }),
    wrong: `${token('root')}x`,
    ended,
    refusal: 'the token is not valid',
    // The token of the tab is replaced by an older one, as if time had passed.
    async revoke(page: Page) {
      await replace(page, ended())
      return 'the token has expired'
    },
    async stop() {
      await service.stop()
      provider.stop()
    },
  } satisfies Mode & Record<string, unknown>
}

const dialogOf = (page: Page) => page.getByRole('dialog', { name: 'This installation requires a credential' })

/** Replaces the credential of the tab. */
const replace = (page: Page, credential: string) =>
  page.evaluate((entry) => sessionStorage.setItem('sluice-api-key', entry), credential)

async function enter(page: Page, credential: string) {
  await dialogOf(page).getByLabel('API key or access token').fill(credential)
  await dialogOf(page).getByRole('button', { name: 'Continue' }).click()
}

/** Opens a page of the console and signs in. */
async function openSignedIn(page: Page, url: string, path: string, credential: string) {
  const faults = await openConsole(page, url, path)
  await enter(page, credential)
  await expect(dialogOf(page)).toBeHidden()
  return faults
}

/** The browser reports each 401 as an error; the first answers to a page without a credential are 401. */
const unexpected = (faults: string[], status = /\b401\b/) => faults.filter((fault) => !status.test(fault))

const headersOf = (credential: string): Record<string, string> =>
  credential.startsWith('eyJ') ? { authorization: `Bearer ${credential}` } : { 'x-api-key': credential }

const callerOf = (url: string, credential: string): Promise<APIRequestContext> =>
  requests.newContext({ baseURL: url, extraHTTPHeaders: headersOf(credential) })

/** Pages that need no resource, each with its heading. */
const PLACES = [
  ['/', 'Overview'],
  ['/pipelines', 'Pipelines'],
  ['/runs', 'Runs'],
  ['/inspector/run', 'Inspector'],
  ['/lineage', 'Lineage'],
  ['/query', 'Query'],
  ['/lake', 'Lake'],
  ['/branches', 'Branches'],
  ['/landing-zones', 'Landing zones'],
  ['/system', 'System'],
  ['/retention', 'Retention'],
  ['/audit', 'Audit'],
  ['/sharing', 'Sharing'],
  ['/settings', 'Settings'],
] as const

/** Collects the requests of a page that the service refuses from now on. */
function refusedIn(page: Page): string[] {
  const refused: string[] = []
  page.on('response', (response) => {
    if (response.status() >= 400) refused.push(`${response.status()} ${new URL(response.url()).pathname}`)
  })
  return refused
}

/** Goes to a page by its link, so that the page keeps its state. */
const goTo = (page: Page, name: string) =>
  page.getByRole('navigation', { name: 'Console' }).getByRole('link', { name, exact: true }).click()

for (const [name, start] of [
  ['API keys', startWithKeys],
  ['access tokens', startWithProvider],
] as const)
  test.describe(name, () => {
    let mode: Mode

    test.beforeAll(async () => {
      mode = await start()
    })
    test.afterAll(() => mode?.stop())

    test('the console asks for a credential, refuses a wrong one, and opens every page', async ({
      page,
      context,
    }) => {
      const { service, wrong, refusal } = mode
      const credential = mode.credential()
      const addresses: string[] = []
      page.on('request', (request) => addresses.push(request.url()))
      const faults = await openConsole(page, service.url, '/runs')
      await expect(dialogOf(page)).toBeVisible()
      await expect(dialogOf(page).getByLabel('API key or access token')).toBeFocused()
      await expectAccessible(page, `sign-in-${name}`)
      await page.keyboard.press('Escape')
      const wrongs = refusedIn(page)
      for (const [entered, message] of [
        [wrong, `This key or token is refused: ${refusal}.`],
        ['schlüssel', 'it contains a space or a character that is not ASCII'],
      ] as const) {
        await enter(page, entered)
        await expect(dialogOf(page).getByRole('alert')).toContainText(message)
      }
      await expectAccessible(page, `sign-in-refused-${name}`)
      // Each wrong credential brings the address nearer to its limit, so an entry is sent once.
      expect(wrongs).toEqual(['401 /api/v1/features'])
      await enter(page, credential)
      await expect(dialogOf(page)).toBeHidden()
      const refused = refusedIn(page)
      for (const [path, heading] of PLACES) {
        await goTo(page, heading)
        await expect(page).toHaveURL(new RegExp(`/console${path}$`))
        await expect(page.getByRole('heading', { level: 1, name: heading })).toBeVisible()
      }
      await expect(page.getByRole('region', { name: 'Namespaces' })).toBeVisible()
      expect(refused).toEqual([])
      expect(unexpected(faults)).toEqual([])

      const stored = await page.evaluate(() => JSON.stringify([{ ...localStorage }, document.cookie]))
      for (const secret of [credential, wrong])
        for (const place of [page.url(), addresses.join('\n'), stored, service.log()])
          expect(place).not.toContain(secret)
      const other = await context.newPage()
      await openConsole(other, service.url, '/runs')
      await expect(dialogOf(other)).toBeVisible()
    })

    test('the dialog names other reasons, and nothing is stored', async ({ page }) => {
      await openConsole(page, mode.service.url, '/runs')
      for (const [status, message] of [
        [403, 'the licence allows 5 users'],
        [429, 'too many wrong credentials from this address'],
        [503, 'keys of the identity provider not fetched'],
      ] as const) {
        await page.route('**/api/v1/features', (route) =>
          route.fulfill({ status, json: { error: { message } } }),
        )
        await enter(page, mode.credential())
        await expect(dialogOf(page).getByRole('alert')).toHaveText(message)
        await page.unroute('**/api/v1/features')
      }
      await page.route('**/api/v1/features', (route) => route.abort())
      await enter(page, mode.credential())
      await expect(dialogOf(page).getByRole('alert')).toContainText('no answer from the service')
      expect(await page.evaluate(() => sessionStorage.length)).toBe(0)
      await page.unroute('**/api/v1/features')
      await dialogOf(page).getByRole('button', { name: 'Continue' }).click()
      await expect(dialogOf(page)).toBeHidden()
      await expect(page.getByRole('heading', { level: 1, name: 'Runs' })).toBeVisible()
    })

    test('a credential that ends during work costs no page and no text', async ({ page }) => {
      const caller = await callerOf(mode.service.url, mode.credential())
      const namespace = await newNamespace(caller)
      const { layer, name } = await publishedPipeline(caller, 'select 1 as n', { namespace })
      const path = `/pipelines/${namespace}/${layer}/${name}`
      const faults = await openSignedIn(page, mode.service.url, path, mode.credential())
      const editor = page.getByRole('textbox', { name: /^Draft of pipeline/ })
      await expect(editor).toContainText('select 1 as n')
      await editor.click()
      await page.keyboard.press('End')
      await page.keyboard.insertText(', 2 as unsaved')
      await expect(page.getByText('not saved')).toBeVisible()
      await page.getByRole('button', { name: 'Publish', exact: true }).click()
      const publishing = page.getByRole('dialog', { name: 'Publish the draft' })
      await publishing.getByLabel('Message').fill('a message that is not sent')

      const reason = await mode.revoke(page)
      await expect(dialogOf(page)).toContainText(
        `The service no longer accepts the key or token of this tab: ${reason}.`,
      )
      await expectAccessible(page, `sign-in-again-${mode.refusal}`)
      await enter(page, mode.wrong)
      await expect(dialogOf(page).getByRole('alert')).toContainText(
        `This key or token is refused: ${mode.refusal}`,
      )
      await enter(page, mode.credential())
      await expect(dialogOf(page)).toBeHidden()

      await expect(page).toHaveURL(new RegExp(`/console${path}$`))
      await expect(publishing.getByLabel('Message')).toHaveValue('a message that is not sent')
      await publishing.getByRole('button', { name: 'Cancel' }).click()
      await expect(editor).toContainText('select 1 as n, 2 as unsaved')
      await page.getByRole('button', { name: 'Save draft' }).click()
      await expect(page.getByText('The draft is saved')).toBeVisible()
      const caller2 = await callerOf(mode.service.url, mode.credential())
      const file = await caller2.get(`/api/v1/files/${namespace}/pipelines/${layer}/${name}/pipeline.sql`)
      expect((await file.json()).content).toBe('select 1 as n, 2 as unsaved')
      // While the service restarts, requests fail.
      expect(unexpected(faults, /\b401\b|\b503\b|net::ERR_|inline style|style-src-attr/)).toEqual([])
    })

    test('a save, an upload and a stream wait for the new credential', async ({ page }) => {
      const caller = await callerOf(mode.service.url, mode.credential())
      const namespace = await newNamespace(caller)
      await caller.post('/api/v1/landing-zones', { data: { namespace, name: 'orders' } })
      await openSignedIn(page, mode.service.url, `/landing-zones/${namespace}/orders`, mode.credential())
      await expect(page.getByRole('heading', { level: 1 })).toContainText('orders')
      await replace(page, mode.ended())
      await page
        .getByLabel('Choose files')
        .setInputFiles({ name: 'late.csv', mimeType: 'text/csv', buffer: Buffer.from('a\n1\n') })
      await expect(dialogOf(page)).toBeVisible()
      await enter(page, mode.credential())
      await expect(page.getByRole('cell', { name: /^\d.*late.csv$/ })).toBeVisible()

      await replace(page, mode.ended())
      await goTo(page, 'Runs')
      await expect(dialogOf(page)).toBeVisible()
      const stream = page.waitForResponse(
        (response) => /inspector\/run\/events/.test(response.url()) && response.status() === 200,
      )
      await enter(page, mode.credential())
      expect((await stream).headers()['content-type']).toContain('text/event-stream')
      await expect(dialogOf(page)).toBeHidden()
    })

    test('live streams and the inspector of the tab use the credential', async ({ page }) => {
      const { service } = mode
      const credential = mode.credential()
      const caller = await callerOf(service.url, credential)
      const namespace = await newNamespace(caller)
      const pipeline = await publishedPipeline(caller, 'select 1 as n', { namespace })
      const stream = page.waitForResponse(
        (response) => /inspector\/run\/events/.test(response.url()) && response.status() === 200,
      )
      const faults = await openSignedIn(page, service.url, '/runs', credential)
      const { headers, url } = await stream.then(async (response) => ({
        headers: await response.request().allHeaders(),
        url: response.url(),
      }))
      expect(headers).toMatchObject(headersOf(credential))
      expect(url).not.toContain(credential)
      const id = await requestRun(caller, pipeline)
      await page.getByRole('link', { name: `${namespace}.gold.${pipeline.name}` }).click()
      await expect(page.getByRole('log')).toContainText('attempt 1')
      await expect(page.locator('.facts').getByText('success')).toBeVisible()

      await goTo(page, 'Inspector')
      await expect(page).toHaveURL(/\/console\/inspector\/run$/)
      await expect(page.locator('.virtual-row a').first()).toBeVisible()
      await expect(page.locator('#connection')).toHaveText('live')
      await expect(dialogOf(page)).toBeHidden()
      await page.goto(`${service.url}/inspector#/run/${id}`)
      await expect(page.locator('.now .pill')).toHaveText('success')
      expect(unexpected(faults)).toEqual([])
      expect(service.log()).not.toContain(credential)
    })
  })

test.describe('persons with rights', () => {
  let mode: Awaited<ReturnType<typeof startWithProvider>>
  let ann: APIRequestContext
  let url: string

  test.beforeAll(async () => {
    mode = await startWithProvider()
    url = mode.service.url
    ann = await callerOf(url, mode.token('ann'))
  })
  test.afterAll(() => mode?.stop())

  /** A pipeline of Ann with a table. */
  async function pipelineOfAnn(namespace?: string) {
    const pipeline = await publishedPipeline(ann, 'select 1 as n', {
      namespace: namespace ?? (await newNamespace(ann)),
    })
    await runToSuccess(ann, pipeline)
    const { id } = await (await ann.get(pipeline.url)).json()
    return { ...pipeline, id: String(id), title: `${pipeline.namespace}.${pipeline.layer}.${pipeline.name}` }
  }
  const grant = async (resource_id: string, grantee_id: string, permission: string) => {
    const data = { resource_type: 'pipeline', resource_id, grantee_id, permission }
    expect((await ann.post('/api/v1/sharing', { data })).status()).toBe(201)
  }

  test('the shell names the person, whose data the next person does not see', async ({ page }) => {
    const { title } = await pipelineOfAnn()
    await openSignedIn(page, url, '/pipelines', mode.token('ann', { name: 'Ann Müller' }))
    const shell = page.getByRole('navigation', { name: 'Console' })
    await expect(shell.getByText('Ann Müller')).toBeVisible()
    await expect(page.getByRole('link', { name: title })).toBeVisible()
    await expectAccessible(page, 'signed-in')
    await replace(page, mode.ended('ann'))
    await expect(dialogOf(page)).toBeVisible()
    await enter(page, mode.token('eve'))
    await expect(shell.getByText('eve')).toBeVisible()
    await expect(page).toHaveURL(/\/console\/pipelines$/)
    await expect(page.getByText('No pipeline')).toBeVisible()
    await expect(page.getByText(title)).toHaveCount(0)
    await shell.getByRole('button', { name: 'Sign out' }).click()
    await expect(dialogOf(page)).toBeVisible()
    await expect(shell.getByText('eve')).toBeHidden()
    expect(await page.evaluate(() => sessionStorage.getItem('sluice-api-key'))).toBeNull()
  })

  test('a person with few rights sees why a page or an action is refused', async ({ page }) => {
    const { id, title, namespace, layer, name } = await pipelineOfAnn()
    const hidden = await pipelineOfAnn()
    await grant(id, 'bob', 'read')
    await openSignedIn(page, url, '/audit', mode.token('bob'))
    for (const place of ['Audit', 'Retention']) {
      await goTo(page, place)
      await expect(page.getByRole('heading', { name: 'Not allowed' }).first()).toBeVisible()
      await expect(page.getByText('administrator role required').first()).toBeVisible()
      await expectAccessible(page, `not-allowed-${place}`)
    }
    const refused = refusedIn(page)
    for (const [path, heading] of PLACES) {
      if (path === '/audit' || path === '/retention') continue
      await goTo(page, heading)
      await expect(page.getByRole('heading', { level: 1, name: heading })).toBeVisible()
    }

    await expect(page.getByRole('region', { name: 'Namespaces' })).toBeVisible()
    expect(refused.filter((request) => !request.startsWith('403 /api/v1/a'))).toEqual([])

    await goTo(page, 'Pipelines')
    await page.getByRole('link', { name: title }).click()
    await expect(page.getByText(hidden.title)).toHaveCount(0)
    await page.getByRole('button', { name: 'Publish', exact: true }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Publish', exact: true }).click()
    await expect(page.getByRole('dialog')).toContainText('write permission on the pipeline required')
    await expectAccessible(page, 'action-refused')
    await page.keyboard.press('Escape')
    await page.getByRole('textbox', { name: /^Draft of pipeline/ }).click()
    await page.keyboard.insertText('-- ')
    await page.getByRole('button', { name: 'Save draft' }).click()
    await expect(page.getByText(/^Not saved: write permission .* required/)).toBeVisible()
    expect(page.url()).toContain(`/pipelines/${namespace}/${layer}/${name}`)

    const other = `/console/pipelines/${hidden.namespace}/${hidden.layer}/${hidden.name}`
    page.on('dialog', (question) => question.accept())
    await page.goto(url + other)
    await expect(page.getByRole('heading', { name: 'Not found' })).toBeVisible()
    await expectAccessible(page, 'not-found')
  })

  test('an owner grants, revokes and transfers a pipeline', async ({ page }) => {
    // Everybody may make pipelines in this namespace, and Ann does not own it.
    const { title, url: pipelineUrl } = await pipelineOfAnn('default')
    const bob = await callerOf(url, mode.token('bob'))
    const statusForBob = async () => (await bob.get(pipelineUrl)).status()
    const faults = await openSignedIn(page, url, '/sharing', mode.token('ann'))
    await expect(page.getByText('No resource is chosen')).toBeVisible()
    await expectAccessible(page, 'sharing')
    await page.getByLabel('Search by name').fill(title.split('.').at(-1) ?? '')
    await page.getByLabel('Pipeline', { exact: true }).selectOption(title)
    await expect(page.getByText('Owner: ann')).toBeVisible()
    await expect(page.getByText('No grants')).toBeVisible()
    await expectAccessible(page, 'sharing-none')

    await page.getByRole('button', { name: 'Grant', exact: true }).click()
    await page.getByLabel('User').fill('bob')
    await page.getByLabel('May').selectOption('read')
    await expectAccessible(page, 'sharing-grant')
    await page.getByRole('dialog').getByRole('button', { name: 'Grant' }).click()
    const row = page.getByRole('row').filter({ hasText: 'bob' })
    await expect(row).toContainText('read')
    await expectAccessible(page, 'sharing-grants')
    expect(await statusForBob()).toBe(200)
    await page.reload()
    await expect(row).toContainText('ann')

    await page.getByRole('button', { name: 'Revoke the grant of bob' }).click()
    await expect(page.getByText('The grant is revoked')).toBeVisible()
    await expect(row).toBeHidden()
    expect(await statusForBob()).toBe(404)

    await page.getByRole('button', { name: 'Transfer ownership' }).click()
    await page.getByLabel('New owner').fill('bob')
    await expectAccessible(page, 'sharing-transfer')
    await page.getByRole('dialog').getByRole('button', { name: 'Transfer' }).click()
    await expect(page.getByText(`${title} belongs to bob`)).toBeVisible()
    await expect(page.getByRole('dialog')).toBeHidden()
    await expect(page.getByText('Nothing to share here')).toBeVisible()
    expect((await (await bob.get(pipelineUrl)).json()).owner).toBe('bob')
    expect((await ann.get(pipelineUrl)).status()).toBe(404)
    expect(unexpected(faults)).toEqual([])
  })

  test('namespaces and landing zones are shared, and a reader cannot share', async ({ page }) => {
    const { id, title, namespace } = await pipelineOfAnn()
    await ann.post('/api/v1/landing-zones', { data: { namespace, name: 'orders' } })
    await openSignedIn(page, url, '/sharing', mode.token('ann'))
    for (const [kind, label, name] of [
      ['Namespace', 'Namespace', namespace],
      ['Landing zone', 'Landing zone', `${namespace}.orders`],
    ] as const) {
      await page.getByLabel('Kind').selectOption(kind)
      await page.getByLabel(label, { exact: true }).selectOption(name)
      await expect(page.getByRole('button', { name: 'Transfer ownership' })).toBeHidden()
      await page.getByRole('button', { name: 'Grant', exact: true }).click()
      await page.getByLabel('User').fill('carl')
      await page.getByRole('dialog').getByRole('button', { name: 'Grant' }).click()
      await expect(page.getByRole('row').filter({ hasText: 'carl' })).toContainText('read')
    }

    await grant(id, 'dora', 'read')
    await page.getByRole('button', { name: 'Sign out' }).click()
    await enter(page, mode.token('dora'))
    await page.getByLabel('Kind').selectOption('Pipeline')
    await page.getByLabel('Pipeline', { exact: true }).selectOption(title)
    await page.getByRole('button', { name: 'Grant', exact: true }).click()
    await page.getByLabel('User').fill('eve')
    await page.getByRole('dialog').getByRole('button', { name: 'Grant' }).click()
    await expect(page.getByRole('dialog')).toContainText('admin permission on pipeline')
    await page.keyboard.press('Escape')
    await page.getByRole('button', { name: 'Transfer ownership' }).click()
    await page.getByLabel('New owner').fill('dora')
    await page.getByRole('dialog').getByRole('button', { name: 'Transfer' }).click()
    await expect(page.getByRole('dialog')).toContainText('only the owner of a pipeline can transfer it')
    await expectAccessible(page, 'sharing-refused')
  })
})
