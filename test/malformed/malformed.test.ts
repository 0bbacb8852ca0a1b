import { afterEach, expect, it } from 'vitest'
import { createClosers } from '../../runtime/closers.ts'
import { inForm } from '../kit/form.ts'
import { toStoreSettings } from '../kit/processes/svc.ts'
import { openOwnStores } from '../kit/service.ts'
import { renderReport } from './report.ts'
import { runMalformed } from './run.ts'

/** Whatever arrives, the service says what is wrong with it, makes no mistake of its own, and goes on. */
const requests = inForm({ short: 1_500, middle: 2_500, long: 500_000 })

const closers = createClosers()
afterEach(() => closers.closeAll())

it(`${requests} malformed requests are refused one by one, and do no one else any harm`, async () => {
  const stores = await openOwnStores('postgres')
  const report = await runMalformed({
    seed: 20_260_101,
    first: 0,
    end: requests,
    kind: '',
    senders: 1,
    held: 60,
    environment: toStoreSettings(stores),
    onProgress: () => undefined,
    closers,
  })

  expect(report.violations, renderReport(report)).toEqual([])
  const statuses = Object.values(report.statuses).flatMap((it) => Object.keys(it))
  expect(statuses).toEqual(expect.arrayContaining(['200', '204', '400', '401', '404', '405', '413', '415', 'none']))
  expect(report.wellBehaved.points).toBeGreaterThan(0)
})
