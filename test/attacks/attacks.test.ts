import { afterEach, expect, it } from 'vitest'
import { createClosers } from '../../runtime/closers.ts'
import { form } from '../kit/form.ts'
import { openOwnStores } from '../kit/service.ts'
import { renderReport } from './report.ts'
import { runAttacks } from './run.ts'

const closers = createClosers()
afterEach(() => closers.closeAll())

it('holds against what attackers use: each class of attacks is tried, and each attack holds', async () => {
  const stores = await openOwnStores('postgres')
  const report = await runAttacks({ only: '', secondsMax: 240, isShort: form !== 'long', stores, closers })

  expect(report.violations, renderReport(report)).toEqual([])
  expect(report.classes.length).toBeGreaterThan(12)
  for (const it of report.classes) expect([it.name, it.held], renderReport(report)).toEqual([it.name, it.tried])
})
