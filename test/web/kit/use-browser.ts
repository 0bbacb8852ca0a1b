import { afterAll, beforeAll } from 'vitest'
import { openBrowser, type TestBrowser } from '../../kit/browser.ts'

/**
 * A browser for the tests of a file; it fails them when a page had faults that they do not expect.
 *
 * @param closeService closes what the pages ask, once none is open any more: an open page reports a service that ends
 * @param expected what pages may report, at any time: Chromium reports each answer that is an error, and it does so late
 */
export function useBrowser(closeService: () => unknown, expected: RegExp[] = []): { get(): TestBrowser } {
  let opened: TestBrowser | undefined
  beforeAll(async () => {
    opened = await openBrowser()
  })
  afterAll(async () => {
    await opened?.close()
    await closeService()
    const faults = (opened?.faults ?? []).filter((fault) => ![...expected, busy].some((it) => it.test(fault)))
    if (faults.length > 0) throw new Error(`The pages reported:\n${faults.join('\n')}`)
  })
  return { get: () => opened as TestBrowser }
}

/** The report of an answer with one of these statuses. */
export const answered = (...statuses: number[]) => new RegExp(`Failed to load resource: .* (${statuses.join('|')}) \\(`)

/** The stores of a busy machine may be too slow for one read; the page asks again, as the test sees. */
const busy = answered(503)
