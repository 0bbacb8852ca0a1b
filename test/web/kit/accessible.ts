import axe from 'axe-core'
import type { Page } from 'playwright-core'
import { expect } from 'vitest'

/** Fails with what axe finds to mend on a page as it is now, by all of its rules or by those named. */
export async function expectAccessible(page: Page, rules?: string[]): Promise<void> {
  // A script of the page itself may not run under its policy; this one comes from outside.
  await page.evaluate(axe.source)
  const found = (await page.evaluate(`axe.run(${JSON.stringify(rules ? { runOnly: rules } : {})})`)) as {
    violations: { id: string; nodes: { html: string; failureSummary: string }[] }[]
  }
  const faults = found.violations.map((it) => `${it.id}: ${it.nodes[0]?.html} ${it.nodes[0]?.failureSummary}`)
  expect(faults, page.url()).toEqual([])
}
