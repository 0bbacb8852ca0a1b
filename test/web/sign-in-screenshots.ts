/**
 * Takes pictures of single sign-on, light and dark, into docs/screenshots: at two OpenID Connect providers, and through a reverse
 * proxy.
 *
 *   npm run screenshots:sign-in
 */
import { mkdirSync } from 'node:fs'
import path from 'node:path'
import type { Page } from 'playwright-core'
import { openBrowser } from '../kit/browser.ts'
import { openIdentityProvider } from '../kit/http/identity-provider.ts'
import { openReverseProxy } from '../kit/http/reverse-proxy.ts'
import { aFolder, startUp } from '../kit/processes/svc.ts'

const folder = path.resolve(import.meta.dirname, '../../docs/screenshots')
const closers: (() => unknown)[] = []
const onClose = (close: () => unknown) => void closers.unshift(close)
const settledMs = 500

try {
  mkdirSync(folder, { recursive: true })
  let target = ''
  let person = ['guest', '']
  const open = await openReverseProxy({ toTarget: () => target, prefix: '/svc' })
  onClose(open.close)
  const toHeaders = () => ({
    'x-forwarded-user': person[0] as string,
    'x-forwarded-groups': person[1] as string,
    'x-svc-proxy-secret': 'of-the-proxy-of-this-picture',
  })
  const signing = await openReverseProxy({ toTarget: () => target, prefix: '/svc', toHeaders })
  onClose(signing.close)
  const providerOf = async (id: string) => {
    const provider = await openIdentityProvider({ clientId: 'svc', clientSecret: `of ${id}`, publicUrl: open.url, id })
    onClose(provider.close)
    return provider
  }
  const [corp, lab] = [await providerOf('corp'), await providerOf('lab')]
  corp.people.set('ada', { preferred_username: 'ada', groups: ['ml-team'] })
  lab.people.set('guest', { preferred_username: 'guest' })
  const of = { clientId: 'svc', createUsers: true }
  const document = {
    proxy: { secretEnv: 'PROXY_SECRET', createUsers: true, allowedGroups: ['ml-team'], signOutUrl: '/oauth2/sign_out' },
    providers: [
      { ...of, id: 'corp', name: 'Example Corp', issuer: corp.issuer, clientSecretEnv: 'CORP_SECRET' },
      {
        ...of,
        id: 'lab',
        name: 'The Lab',
        issuer: lab.issuer,
        clientSecretEnv: 'LAB_SECRET',
        allowedGroups: ['staff'],
      },
    ],
    groups: ['corp', 'proxy'].map((it) => ({ provider: it, group: 'ml-team', workspace: 'vision', role: 'editor' })),
  }
  const settings = {
    SVC_PUBLIC_URL: open.url,
    SVC_SSO: JSON.stringify(document),
    SVC_SSO_PRIVATE_HOSTS: 'localhost',
    CORP_SECRET: 'of corp',
    LAB_SECRET: 'of lab',
    PROXY_SECRET: 'of-the-proxy-of-this-picture',
  }
  const up = await startUp(await aFolder(onClose), settings, onClose)
  target = up.url
  const browser = await openBrowser()
  onClose(browser.close)

  async function signInAt(page: Page, name: string, login: string) {
    await page.goto(`${open.url}/-/settings?section=sessions`)
    await page.getByRole('link', { name: `Sign in with ${name}` }).click()
    await page.getByLabel('Name').fill(login)
    await page.getByRole('button', { name: 'Continue' }).click()
    await page.getByRole('button', { name: 'Continue' }).click()
  }
  for (const colorScheme of ['light', 'dark'] as const) {
    const inBrowser = async (name: string, act: (page: Page) => Promise<unknown>) => {
      const context = await browser.openContext(open.url, undefined, {
        colorScheme,
        viewport: { width: 900, height: 560 },
      })
      const page = await context.newPage()
      await act(page)
      await page.waitForTimeout(settledMs)
      await page.screenshot({ path: path.join(folder, `${name}-${colorScheme}.png`), animations: 'disabled' })
      console.log(`${name}-${colorScheme}.png`)
      await context.close()
    }
    await inBrowser('sign-in-providers', async (page) => {
      await page.goto(`${open.url}/`)
      await page.getByRole('link', { name: 'Sign in with The Lab' }).waitFor()
    })
    await inBrowser('sign-in-refused', async (page) => {
      await signInAt(page, 'The Lab', 'guest')
      await page.getByText('may not use this service').waitFor()
    })
    await inBrowser('sign-in-done', async (page) => {
      await signInAt(page, 'Example Corp', 'ada')
      await page.getByText('this one').waitFor()
      await page.getByRole('button', { name: 'Signed in as ada' }).click()
    })
    person = ['guest', '']
    await inBrowser('sign-in-proxy-refused', async (page) => {
      await page.goto(`${signing.url}/`)
      await page.getByText('may not use this service').waitFor()
    })
    person = ['grace', 'ml-team']
    await inBrowser('sign-in-proxy', async (page) => {
      await page.goto(`${signing.url}/vision`)
      await page.getByRole('button', { name: 'Signed in as grace' }).click()
      await page.getByRole('menuitem', { name: 'Sign out' }).waitFor()
    })
  }
  const faults = browser.faults.filter((it) => !it.includes('Failed to load resource'))
  if (faults.length > 0) throw new Error(faults.join('\n'))
} finally {
  for (const close of closers) await close()
}
