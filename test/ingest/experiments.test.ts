import { expect, it } from 'vitest'
import { createExperimentCheck } from '../../ingest/experiments.ts'

const limits = {}

it('looks up the experiments of concurrent requests together, but per user', async () => {
  const asked: [string, string[]][] = []
  const findExperiment = createExperimentCheck(async (userId, keys) => {
    asked.push([userId, keys])
    // Each may write to what begins with their name.
    const own = keys.filter((key) => key.startsWith(userId))
    return new Map(own.map((key) => [key, { id: BigInt(key.length), limits, isWithheld: key.endsWith('withheld') }]))
  })

  const found = await Promise.all([findExperiment('ann', 'ann1'), findExperiment('ann', 'ann12')])
  expect(found).toMatchObject([{ id: 4n }, { id: 5n }])
  expect(asked).toEqual([['ann', ['ann1', 'ann12']]])
  // What is known is answered without a promise.
  expect(findExperiment('ann', 'ann1')).toMatchObject({ id: 4n })

  const outcomes = await Promise.allSettled([
    findExperiment('bob', 'ann1'),
    findExperiment('bob', 'bob withheld'),
    findExperiment('ann', 'ann123'),
  ])
  expect(outcomes).toMatchObject([
    { reason: { kind: 'experimentUnknown' } },
    { reason: { kind: 'accountRestricted' } },
    { value: { id: 6n } },
  ])
  expect(asked.slice(1)).toEqual([
    ['bob', ['ann1', 'bob withheld']],
    ['ann', ['ann123']],
  ])
})
