import { afterAll, beforeAll } from 'vitest'
import { openBrowser, type TestBrowser } from '../../kit/browser.ts'

/**
 * A browser for the tests of a file; it fails them when a page had faults that no test expected.
 *
 * @param closeService closes what the pages ask, once none is open any more: an open page reports a service that ends
 */
export function useBrowser(closeService: () => unknown): { get(): TestBrowser } {
  let opened: TestBrowser | undefined
  beforeAll(async () => {
    opened = await openBrowser()
  })
  afterAll(async () => {
    await opened?.close()
    await closeService()
    const faults = opened?.faults ?? []
    if (faults.length > 0) throw new Error(`The pages reported:\n${faults.join('\n')}`)
  })
  return { get: () => opened as TestBrowser }
}
