import { afterAll, beforeAll, expect, it } from 'vitest'
import { inForm } from '../kit/form.ts'
import { openTestService } from '../kit/service.ts'
import { checkSequences } from '../model/check.ts'

/**
 * Writers send, repeat, crash, start over and lose their clocks, all at once; what is then read is what a set of a few
 * lines says (`test/model/model.ts`). Many more sequences: `npm run model -- --sequences 10000`.
 */
const count = inForm({ short: 30, middle: 30, long: 2_000 })

let service: Awaited<ReturnType<typeof openTestService>>
beforeAll(async () => {
  service = await openTestService()
})
afterAll(() => service?.close())

it(`${count} sequences of writes, in whatever order and however often repeated, end as the model says`, async () => {
  const seed = Date.now() % 1_000_000_000
  await expect(checkSequences({ client: service.client, count, seed })).resolves.toBeUndefined()
})
