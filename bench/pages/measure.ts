import type { Page } from 'playwright-core'

/** How long a page may take before a measurement fails. */
const waitMs = 120_000

/** What a page checks before each frame: an expression of its script. */
export type Ready = string

/**
 * Opens an address and waits until the page shows what is expected, and the frame with it is drawn.
 *
 * @returns milliseconds since the navigation began, by the clock of the page
 */
export async function measureLoad(page: Page, address: string, ready: Ready): Promise<number> {
  // A change of the part behind `#` alone would not load anything.
  await page.goto('about:blank')
  await page.goto(address, { waitUntil: 'commit' })
  await page.waitForFunction(ready, undefined, { polling: 'raf', timeout: waitMs })
  return await drawnAt(page)
}

/**
 * Waits until something that was set off is drawn.
 *
 * @returns milliseconds since `startedAt`, a time of the clock of the page (see `clockOf`)
 */
export async function measureSince(page: Page, startedAt: number, ready: Ready): Promise<number> {
  await page.waitForFunction(ready, undefined, { polling: 'raf', timeout: waitMs })
  return (await drawnAt(page)) - startedAt
}

/** Milliseconds since the page's navigation began. */
export async function clockOf(page: Page): Promise<number> {
  return await page.evaluate('performance.now()')
}

/** Two frames later what was laid out is on the screen. */
async function drawnAt(page: Page): Promise<number> {
  const frame = (then: string) => `requestAnimationFrame(() => ${then})`
  return await page.evaluate(`new Promise((done) => ${frame(frame('done(performance.now())'))})`)
}
